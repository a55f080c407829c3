package contract

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// maxNameBytes bounds ids, SKUs, regions and tiers.
const maxNameBytes = 200

// Fields of each mapping; the clauses come to them. The schema in schemas/contract.schema.json names the same.
func rootFields() []string {
	return []string{"contract", "customer", "currency", "timezone", "term", "billing", "price_book", "rates"}
}

func termFields() []string { return []string{"from", "to"} }

// Parse reads and checks one contract document. The error is an Errors with everything found.
func Parse(file string, data []byte) (*Contract, error) {
	node, broken := parseYAML(file, data)
	if broken != nil {
		return nil, Errors{*broken}
	}
	return parse(file, node, data)
}

// ParseNode reads a contract that stands inside another document, such as a scenario file. Lines and columns are those
// of that document, which the caller has parsed (with parser.AllowDuplicateMapKey, for duplicates to be reported here)
// and bounded. Source is the node written out as a document of its own.
func ParseNode(file string, node ast.Node) (*Contract, error) {
	if node == nil {
		return nil, Errors{{File: file, Line: 1, Column: 1, Message: "the contract is empty"}}
	}
	if _, err := parse(file, node, nil); err != nil {
		return nil, err
	}
	// What the log will hold is the written-out source, so that is what is read.
	return Parse(file, []byte(node.String()))
}

func parse(file string, node ast.Node, source []byte) (*Contract, error) {
	c := &Contract{Source: append([]byte(nil), source...)}
	r := &reader{file: file, contract: c}
	known, unsupported := fields(rootFields(), rootClauses())
	if s, ok := r.section(node, "", known, unsupported); ok {
		r.root(s, c)
	}
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}
	return c, nil
}

func (r *reader) root(s section, c *Contract) {
	c.ID, _ = need(r, s, "contract", "name the contract, such as acme-2026", parseName)
	c.Customer, _ = need(r, s, "customer", "name the customer, such as acme", parseName)
	c.Currency, _ = need(r, s, "currency", "write an ISO 4217 code such as USD", money.ParseCurrency)
	zone, zoned := need(r, s, "timezone", "write an IANA name such as Asia/Shanghai", calendar.LoadZone)
	c.Zone = zone
	if n, ok := r.required(s, "term", "write {from: 2026-01-01, to: 2027-01-01}"); ok {
		c.Term = r.term(n, zone, zoned)
	}
	c.Billing = r.billing(s.values["billing"])
	set(r, s, "price_book", "name the price book, such as list-cn", parseName, func(v string) { c.PriceBook = v })
	if n, stated := s.values["rates"]; stated || c.PriceBook == "" {
		if !stated {
			r.failf(s.node, s.field, "write at least one rate, or name a price_book", "`rates:` is missing")
		} else {
			c.Rates = r.rates(n, rateClauses())
		}
	}
	clauses(r, s, rootClauses(), c)
}

// parseName bounds a name and keeps it printable on one line; any script is welcome (case B143).
func parseName(text string) (string, error) {
	switch {
	case len(text) > maxNameBytes:
		return "", fmt.Errorf("the name has %d bytes; keep it within %d", len(text), maxNameBytes)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("the name holds control characters or is not UTF-8; remove them")
	case strings.TrimSpace(text) != text:
		return "", errors.New("the name begins or ends with a space; remove it")
	default:
		return text, nil
	}
}

// term reads [from, to): local dates of the contract's zone, or instants. An end that is left out by mistake would bill
// for ever, so having none is said with the word open.
func (r *reader) term(n ast.Node, zone calendar.Zone, zoned bool) span.Span {
	s, ok := r.section(n, "term", termFields(), nil)
	if !ok {
		return span.Span{}
	}
	const remedy = "write a local date such as 2026-01-01"
	bound := func(open bool) func(string) (span.Second, error) {
		return func(text string) (span.Second, error) { return parseBound(text, zone, zoned, open) }
	}
	from, fromOK := need(r, s, "from", remedy, bound(false))
	to, toOK := need(r, s, "to", remedy, bound(true))
	if fromOK && toOK && zoned && to <= from {
		r.failf(s.values["to"], "term.to", "write a later end", "the term is empty: it ends at %s and begins at %s", to, from)
	}
	return span.Span{From: from, To: to}
}

// Beyond is the beginning of 2200, which no date of a contract reaches, and no purchase: what runs on must have an end that can be written.
const Beyond span.Second = 7258118400

// parseBound reads a date or an instant of the years 1970 to 2199: later ones overflow the nanoseconds of the databases
// that keep them (case B133).
func parseBound(text string, zone calendar.Zone, zoned, open bool) (span.Second, error) {
	if open && text == "open" {
		return span.Open, nil
	}
	day, _, instant := strings.Cut(text, "T")
	date, err := calendar.ParseDate(day)
	if err != nil {
		return 0, fmt.Errorf("%.40q is neither a local date nor an instant; write 2026-01-01 or 2026-01-01T00:00:00Z", text)
	}
	if date.Year < 1970 || date.Year > 2199 {
		remedy := "write a date"
		if open {
			remedy = "write a date, or open for a contract without end"
		}
		return 0, fmt.Errorf("%.40s lies outside 1970 to 2199; %s", text, remedy)
	}
	switch {
	case instant:
		return span.Parse(text)
	case zoned:
		return zone.StartOfDay(date), nil
	default:
		return 0, nil // the zone's error is reported already
	}
}
