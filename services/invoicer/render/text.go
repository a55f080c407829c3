package render

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

const (
	ellipsis = "…"
	glue     = '\u00a0' // a space at which no line breaks; it leaves as a plain one
	joiner   = '\u2060' // keeps two wide letters in one line; it does not leave
	lrm      = '\u200e' // ends a run of letters written from the right, so that the figures after it stay in place
	spaces   = " " + string(glue)
	maxMarks = 2 // combining marks on one letter; a tower of them would run into the lines above
)

// clean makes text from outside safe to print: composed, without controls, direction overrides, joiners or line breaks,
// and with nothing whose width depends on the terminal. What is taken out stays visible by its code point.
func clean(s string) string {
	var out strings.Builder
	marks, rtl := maxMarks, false // a mark needs a letter in front
	for _, r := range norm.NFC.String(strings.ToValidUTF8(s, "\ufffd")) {
		switch {
		case unicode.Is(unicode.Variation_Selector, r): // the same letter in another shape
		case unicode.Is(unicode.Zs, r):
			out.WriteByte(' ')
			marks = maxMarks
		case isMark(r) && marks < maxMarks:
			out.WriteRune(r)
			marks++
		case isMark(r), !unicode.IsPrint(r), joins(r):
			fmt.Fprintf(&out, "<U+%04X>", r)
			marks = maxMarks
		default:
			out.WriteRune(r)
			marks = 0
			rtl = rtl || isRTL(r)
		}
	}
	if rtl {
		out.WriteRune(lrm)
	}
	return out.String()
}

func isMark(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) }

// joins tells letters that some terminals draw into the one before: Hangul parts that did not compose, skin tones.
func joins(r rune) bool {
	return 0x1160 <= r && r <= 0x11ff || 0xd7b0 <= r && r <= 0xd7ff || 0x1f3fb <= r && r <= 0x1f3ff
}

func isRTL(r rune) bool {
	p, _ := bidi.LookupRune(r)
	return p.Class() == bidi.R || p.Class() == bidi.AL
}

// columns is how much room text takes in a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case isMark(r) || r == lrm || r == joiner:
		return 0
	case isWide(r):
		return 2
	default:
		return 1
	}
}

func isWide(r rune) bool {
	k := width.LookupRune(r).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}

// clip cuts text to a width; what was cut shows as an ellipsis.
func clip(s string, w int) string {
	if columns(s) <= w {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > w-1 {
			return strings.TrimRight(s[:i], " ") + ellipsis
		}
	}
	return s
}

// pad fills a cell with spaces.
func pad(s string, w int, align Align) string {
	if strings.ContainsFunc(s, isRTL) {
		s += string(lrm)
	}
	fill := strings.Repeat(" ", max(0, w-columns(s)))
	if align == Right {
		return fill + s
	}
	return s + fill
}

// wrap breaks text into lines of a width of at least 2: at spaces and between wide letters, at glue only when what it
// holds is too long for a line, and inside a word only when the word is.
func wrap(s string, w int) []string {
	var lines []string
	for {
		line, rest := breakLine(s, w)
		lines = append(lines, line)
		if rest == "" {
			return lines
		}
		s = rest
	}
}

func breakLine(s string, w int) (line, rest string) {
	used, cut, glued := 0, 0, 0
	var last rune
	for i, r := range s {
		if i > 0 && breaks(last, r) {
			cut = i
		}
		if r == glue {
			glued = i
		}
		if used += runeColumns(r); used > w {
			if cut == 0 {
				cut = cmp.Or(glued, i)
			}
			return strings.TrimRight(s[:cut], spaces), strings.TrimLeft(s[cut:], spaces)
		}
		last = r
	}
	return s, ""
}

// glued keeps a text in one line where it fits in one.
func glued(s string) string {
	var out strings.Builder
	var last rune
	for _, r := range s {
		if isWide(last) && isWide(r) {
			out.WriteRune(joiner)
		}
		last = r
		if r == ' ' {
			r = glue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// breaks tells whether a line may end between two letters. Chinese breaks anywhere, but no line starts with a stop or
// a closing bracket, ends with an opening one, or parts a figure from its measure.
func breaks(a, b rune) bool {
	switch {
	case a == ' ' || b == ' ':
		return true
	case a == glue || b == glue || a == joiner || b == joiner, strings.ContainsRune("、。，；：！？）》」%", b), strings.ContainsRune("（《「", a):
		return false
	default:
		return isWide(a) && isWide(b)
	}
}

// group writes a decimal with its thousands set apart, as money.Rounded.Format does: 12345.60 becomes 12,345.60. What
// is no decimal is text from outside.
func group(s string) string {
	digits := strings.TrimPrefix(s, "-")
	whole := digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
	rest := digits[len(whole):]
	if strings.Trim(rest, ".0123456789"+ellipsis) != "" {
		return clean(s)
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return s[:len(s)-len(digits)] + whole + rest
}
