package render

import (
	"cmp"
	"strings"
)

// Align is the side of its column on which a cell stands.
type Align uint8

// Figures stand on the right, words on the left.
const (
	Left Align = iota
	Right
)

// Fit says what a column does when the table is wider than its room.
type Fit uint8

// Figures keep their width: half an amount would be another amount.
const (
	Keep Fit = iota
	Clip     // the cell is cut, with …
	Wrap     // the cell goes on in the next line
	Fill     // as Wrap, and the column takes the room that is left over
)

// Column is one column of a table.
type Column struct {
	Head  string
	Align Align
	Fit   Fit
}

// Table sets rows in columns below a header and a rule. No line is wider than Width: columns give way as their Fit
// says, and when that is not enough every row stands as a list of heads and cells. Cells from outside are made harmless.
type Table struct {
	Width   int // columns of the terminal; 0 is 80
	Colour  bool
	Indent  int // where notes begin
	Columns []Column
	rows    []row
}

type row struct {
	cells []string
	total bool
	notes []note
}

type note struct{ label, text string }

const (
	gap          = "  "
	narrowest    = 40  // a narrower terminal gets this width
	widest       = 120 // a longer line is hard to follow
	wordMax      = 20  // a longer word breaks, where its column must give way
	flexMin      = 8   // a column that gives way keeps this much
	defaultWidth = 80
)

// Row adds a row, one cell for each column.
func (t *Table) Row(cells ...string) { t.row(false, cleaned(cells)...) }

// Total adds a row that stands below a rule.
func (t *Table) Total(cells ...string) { t.row(true, cleaned(cells)...) }

func cleaned(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = clean(c)
	}
	return out
}

// row takes clean cells: they may hold glue.
func (t *Table) row(total bool, cells ...string) {
	t.rows = append(t.rows, row{cells: cells, total: total})
}

// Note adds a remark under the last row, across all columns.
func (t *Table) Note(label, text string) { t.note(clean(label), clean(text)) }

// note takes clean text: it may hold glue.
func (t *Table) note(label, text string) {
	r := &t.rows[len(t.rows)-1]
	r.notes = append(r.notes, note{label, text})
}

// String sets the table; every line ends with a line break.
func (t *Table) String() string {
	widths, ok := t.layout()
	var out page
	out.colour = t.Colour
	if !ok {
		t.stack(&out)
		return out.String()
	}
	rule := strings.Repeat("─", total(widths))
	t.line(&out, bold, t.heads(), widths)
	out.line(dim, rule)
	for i, r := range t.rows {
		style := plain
		switch {
		case r.total && (i == 0 || !t.rows[i-1].total):
			out.line(dim, rule)
		case i > 0 && !r.total && len(t.rows[i-1].notes) > 0:
			out.line(plain, "")
		}
		if r.total {
			style = bold
		}
		t.line(&out, style, r.cells, widths)
		t.notes(&out, r.notes)
	}
	return out.String()
}

func (t *Table) heads() []string {
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Head
	}
	return heads
}

// room is the width that a table or a page has.
func room(w int) int { return min(max(cmp.Or(w, defaultWidth), narrowest), widest) }

func total(widths []int) int {
	n := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// layout finds the widths of the columns, or tells that the figures alone do not fit.
func (t *Table) layout() ([]int, bool) {
	widths, floor := make([]int, len(t.Columns)), make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = columns(c.Head)
		for _, r := range t.rows {
			widths[i] = max(widths[i], columns(r.cells[i]))
		}
		floor[i] = widths[i]
		if c.Fit != Keep {
			floor[i] = min(widths[i], max(columns(c.Head), flexMin, t.longestWord(i)))
		}
	}
	for total(widths) > room(t.Width) {
		give := -1
		for i := range widths {
			if widths[i] > floor[i] && (give < 0 || widths[i] > widths[give]) {
				give = i
			}
		}
		if give < 0 {
			return nil, false
		}
		widths[give]--
	}
	for i, c := range t.Columns {
		if c.Fit == Fill {
			widths[i] += room(t.Width) - total(widths)
		}
	}
	return widths, true
}

// longestWord is what a wrapping column should not break: a number or a name, not a hostile one.
func (t *Table) longestWord(column int) int {
	longest := 0
	if t.Columns[column].Fit == Wrap {
		for _, r := range t.rows {
			for _, word := range strings.Fields(r.cells[column]) {
				longest = max(longest, columns(word))
			}
		}
	}
	return min(longest, wordMax)
}

// line sets one row; a wrapped cell makes it several lines.
func (t *Table) line(out *page, style style, cells []string, widths []int) {
	parts := make([][]string, len(cells))
	height := 1
	for i, c := range cells {
		if t.Columns[i].Fit == Clip {
			c = clip(c, widths[i])
		}
		parts[i] = wrap(c, widths[i])
		height = max(height, len(parts[i]))
	}
	for n := range height {
		var text strings.Builder
		for i := range cells {
			cell := ""
			if n < len(parts[i]) {
				cell = parts[i][n]
			}
			if i > 0 {
				text.WriteString(gap)
			}
			text.WriteString(pad(cell, widths[i], t.Columns[i].Align))
		}
		out.line(style, text.String())
	}
}

func (t *Table) notes(out *page, notes []note) {
	label := 0
	for _, r := range t.rows {
		for _, n := range r.notes {
			label = max(label, columns(n.label))
		}
	}
	for _, n := range notes {
		out.pair(t.Indent, label, dim, n, room(t.Width))
	}
}

// stack sets each row as a list, for figures that are too wide to stand beside each other.
func (t *Table) stack(out *page) {
	label := 0
	for _, h := range t.heads() {
		label = max(label, columns(h))
	}
	for i, r := range t.rows {
		if i > 0 {
			out.line(plain, "")
		}
		for k, c := range r.cells {
			if c != "" {
				out.pair(0, label, bold, note{strings.TrimSpace(t.Columns[k].Head), c}, room(t.Width))
			}
		}
		t.notes(out, r.notes)
	}
}
