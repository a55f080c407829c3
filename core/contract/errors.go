package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a document.
type Error struct {
	File         string
	Line, Column int    // of the text that is wrong, from 1
	Field        string // such as rates[0].on_demand; empty for the document as a whole
	Message      string // what is wrong
	Remedy       string // what to write instead; may be empty
}

// Error is "acme.yaml:12:5: rates[0].on_demand: unit is missing; write 35.00/gpu-hour".
func (e Error) Error() string {
	text := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		text += e.Field + ": "
	}
	text += e.Message
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Errors is everything found wrong with a document, in the order of the text.
type Errors []Error

// Error prints one error per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}
