package render

import "strings"

// style is an ANSI code.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	yellow style = "1;33"
)

// page collects lines. Colour is added last, so that it never counts as width.
type page struct {
	strings.Builder
	colour bool
}

func (p *page) paint(s style, text string) string {
	text = strings.NewReplacer(string(glue), " ", string(joiner), "").Replace(text)
	if !p.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func (p *page) line(s style, text string) {
	p.WriteString(p.paint(s, strings.TrimRight(text, " ")) + "\n")
}

// pair sets a label and a text that goes on below itself.
func (p *page) pair(indent, label int, s style, n note, width int) {
	left := strings.Repeat(" ", indent)
	head := p.paint(s, pad(n.label, label, Left)) + gap
	for i, text := range wrap(n.text, width-indent-label-len(gap)) {
		if i > 0 {
			head = strings.Repeat(" ", label) + gap
		}
		p.line(plain, left+head+text)
	}
}

// paragraph sets prose across the page.
func (p *page) paragraph(s style, text string, width int) {
	for _, line := range wrap(text, width) {
		p.line(s, line)
	}
}
