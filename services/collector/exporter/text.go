package exporter

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Label is one name and value behind a series.
type Label struct{ Name, Value string }

// Sample is one line of a page.
type Sample struct {
	Line   int
	Name   string
	Labels []Label
	Value  float64
	Blank  bool  // the value was left out, or is a word for that: N/A
	At     int64 // milliseconds since the epoch; 0: the line has none
}

// label finds the first label of the given names, whose case exporters have changed between versions.
func (s *Sample) label(names ...string) string {
	for _, name := range names {
		for _, l := range s.Labels {
			if strings.EqualFold(l.Name, name) && l.Value != "" {
				return l.Value
			}
		}
	}
	return ""
}

// BadLine is a line that could not be used, and why.
type BadLine struct {
	Line int
	Text string // its beginning
	Why  error
}

func (b BadLine) String() string { return fmt.Sprintf("line %d: %v: %s", b.Line, b.Why, b.Text) }

const (
	maxShown = 160  // bytes of a bad line that are repeated
	maxBad   = 1000 // bad lines of a page that are kept: a page of something else has nothing but
)

func badLine(n int, text string, why error) BadLine {
	if len(text) > maxShown {
		text = text[:maxShown] + "..."
	}
	return BadLine{n, strings.ToValidUTF8(text, "?"), why}
}

// Text is a page taken apart: every line that is neither blank nor a comment is a sample or a bad line.
type Text struct {
	Samples []Sample
	Bad     []BadLine // the first maxBad
	More    int       // further bad lines
	// Torn: the last line has no end, so the page was cut, and that line with it. It is a bad line even where it could be
	// read: a number that was cut reads as another number.
	Torn bool
}

var errTorn = errors.New("the page ends inside this line")

// Parse takes a page in the Prometheus text format apart, line by line. It never fails as a whole.
func Parse(page string) Text {
	var t Text
	for n := 1; page != ""; n++ {
		line, rest, whole := strings.Cut(page, "\n")
		page = rest
		line = strings.Trim(line, " \t\r")
		switch {
		case line == "" || line[0] == '#':
		case !whole:
			t.Torn = true
			t.bad(n, line, errTorn)
		default:
			s, err := parseLine(line)
			if err != nil {
				t.bad(n, line, err)
				continue
			}
			s.Line = n
			t.Samples = append(t.Samples, s)
		}
	}
	return t
}

func (t *Text) bad(n int, line string, why error) {
	if len(t.Bad) == maxBad {
		t.More++
		return
	}
	t.Bad = append(t.Bad, badLine(n, line, why))
}

// parseLine reads name{labels} value time, without what may stand around it.
func parseLine(line string) (Sample, error) {
	var s Sample
	n := nameLength(line, true)
	if n == 0 {
		return s, errors.New("it begins with no name of a series")
	}
	s.Name = line[:n]
	rest := strings.TrimLeft(line[n:], " \t")
	if strings.HasPrefix(rest, "{") {
		var err error
		if s.Labels, rest, err = parseLabels(rest[1:]); err != nil {
			return s, err
		}
	} else if rest == line[n:] && rest != "" {
		return s, errors.New("behind the name stands neither { nor a space")
	}
	return s, s.parseNumbers(strings.Fields(rest))
}

// nameLength counts the bytes that a name may have: letters, digits and _, and : in names of series.
func nameLength(text string, series bool) int {
	for i := range len(text) {
		c := text[i]
		ok := c == '_' || c == ':' && series || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9'
		if !ok {
			return i
		}
	}
	return len(text)
}

// parseLabels reads what stands behind { and gives back what follows }.
func parseLabels(text string) (labels []Label, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t")
		if strings.HasPrefix(text, "}") {
			return labels, text[1:], nil
		}
		n := nameLength(text, false)
		if n == 0 {
			return nil, "", errors.New("a label has no name, or the labels have no }")
		}
		l := Label{Name: text[:n]}
		text = strings.TrimLeft(text[n:], " \t")
		if !strings.HasPrefix(text, "=") {
			return nil, "", fmt.Errorf("label %s has no value", l.Name)
		}
		if l.Value, text, err = parseQuoted(strings.TrimLeft(text[1:], " \t")); err != nil {
			return nil, "", fmt.Errorf("label %s %w", l.Name, err)
		}
		for _, before := range labels {
			if before.Name == l.Name {
				return nil, "", fmt.Errorf("label %s stands there twice", l.Name)
			}
		}
		labels = append(labels, l)
		text = strings.TrimLeft(text, " \t")
		if rest, ok := strings.CutPrefix(text, ","); ok {
			text = rest
		} else if !strings.HasPrefix(text, "}") {
			return nil, "", fmt.Errorf("label %s is followed by neither , nor }", l.Name)
		}
	}
}

// parseQuoted reads a value in quotation marks, in which \\, \" and \n are escapes.
func parseQuoted(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", errors.New("has no quotation marks")
	}
	text = text[1:]
	end := strings.IndexAny(text, `"\`)
	if end >= 0 && text[end] == '"' { // no escapes, as nearly always
		value, rest = text[:end], text[end+1:]
	} else if value, rest, err = unescape(text); err != nil {
		return "", "", err
	}
	if !utf8.ValidString(value) {
		return "", "", errors.New("is not valid UTF-8")
	}
	return value, rest, nil
}

func unescape(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			i++
			switch {
			case i < len(text) && text[i] == 'n':
				b.WriteByte('\n')
			case i < len(text) && (text[i] == '\\' || text[i] == '"'):
				b.WriteByte(text[i])
			default:
				return "", "", errors.New(`has an escape other than \\, \" and \n`)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("has no closing quotation mark")
}

// parseNumbers reads the value and the time. Exporters that cannot read a value leave it out or write a word: that is a value too,
// a blank one, although the format knows none.
func (s *Sample) parseNumbers(words []string) (err error) {
	if len(words) > 2 {
		return fmt.Errorf("%d words stand where a value and a time belong", len(words))
	}
	if len(words) == 2 {
		if s.At, err = strconv.ParseInt(words[1], 10, 64); err != nil || s.At <= 0 {
			return fmt.Errorf("time %q is no whole number of milliseconds", words[1])
		}
	}
	if len(words) == 0 || blankWord(words[0]) {
		s.Blank = true
		return nil
	}
	if strings.ContainsAny(words[0], "_pP") { // ParseFloat takes Go's own spellings, the format does not: 1_000, 0x1p3
		return fmt.Errorf("value %q is no number", words[0])
	}
	s.Value, err = strconv.ParseFloat(words[0], 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value %q is no number", words[0])
	}
	s.Blank = math.IsNaN(s.Value)
	return nil
}

// blankWord tells whether a cell says that there is no value.
func blankWord(word string) bool {
	switch strings.ToLower(strings.Trim(word, "[]")) {
	case "", "n/a", "na", "nan", "none", "null", "<nil>":
		return true
	}
	return false
}
