package random

import (
	"slices"
	"strings"
)

// Chooser picks a number from 0 to n-1.
type Chooser func(n int) int

func (c Chooser) oneIn(n int) bool { return c(n) == 0 }

func (c Chooser) one(list ...string) string { return list[c(len(list))] }

// some picks at least one of a list, in its order.
func (c Chooser) some(list ...string) []string {
	kept := c(len(list))
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != list[kept] && c.oneIn(2) })
}

// node is a scalar, a list or a mapping of a document.
type node struct {
	kind  kind
	text  string   // of a scalar, as it is written
	keys  []string // of a mapping, one for each item
	items []*node
}

type kind uint8

const (
	scalar kind = iota
	list
	mapping
)

func text(s string) *node { return &node{text: s} }

func texts(all ...string) *node {
	n := &node{kind: list}
	for _, s := range all {
		n.items = append(n.items, text(s))
	}
	return n
}

func fields() *node { return &node{kind: mapping} }

func (n *node) set(key string, value *node) *node {
	n.keys, n.items = append(n.keys, key), append(n.items, value)
	return n
}

func (n *node) put(key, value string) *node { return n.set(key, text(value)) }

// flow writes a node in one line.
func (n *node) flow() string {
	parts := make([]string, len(n.items))
	for i, item := range n.items {
		parts[i] = item.flow()
		if n.kind == mapping {
			parts[i] = n.keys[i] + ": " + parts[i]
		}
	}
	switch n.kind {
	case list:
		return "[" + strings.Join(parts, ", ") + "]"
	case mapping:
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return n.text
	}
}

// block writes a node in lines of their own, or parts of it in one, as it comes.
func (n *node) block(choose Chooser, indent int) string {
	left := strings.Repeat(" ", indent)
	var out strings.Builder
	for i, item := range n.items {
		head := "-"
		if n.kind == mapping {
			head = n.keys[i] + ":"
		}
		switch {
		case item.kind == scalar || len(item.items) == 0 || indent > 0 && choose.oneIn(2):
			out.WriteString(left + head + " " + item.flow() + "\n")
		case n.kind == list:
			out.WriteString(left + "- " + item.block(choose, indent+2)[indent+2:])
		default:
			out.WriteString(left + head + "\n" + item.block(choose, indent+2))
		}
	}
	return out.String()
}

// all lists a node and everything below it.
func (n *node) all() []*node {
	out := []*node{n}
	for _, item := range n.items {
		out = append(out, item.all()...)
	}
	return out
}
