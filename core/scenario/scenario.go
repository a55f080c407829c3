package scenario

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// Scenario is one checked file. It is not changed after Parse.
type Scenario struct {
	File         string
	Story        string
	GraceSeconds int64 // the provider's, for contracts that state none
	Stack        bool  // it is played on the real engines too
	Close        []Period
	Expect       []Expectation
	Refusals     []Refusal  // all of them; nil when not stated
	Unbilled     []Unbilled // all refused time that found no contract; nil when not stated
	Devices      []Device
	statements   []replay.Statement
	measurements []replay.Measurement
	until        span.Second
	source       []byte
}

// Period is one billing period of a contract, named by where it starts.
type Period struct {
	Contract, Customer string
	Currency           money.Currency
	Span               span.Span
	At                 span.Second // its end and the grace: when it falls due
	Line               int         // of the file
	text               string      // as the file names it
}

// Expectation is what one document of a period must say. Fields that are nil or empty are not compared.
type Expectation struct {
	Period
	Kind     string // of document, such as bill.KindInvoice
	Blocked  string // part of the reason why the period must not close
	Total    *money.Rounded
	Lines    []Line                        // all of them, in any order; nil when not stated
	Unbilled map[meter.Standing][]Unbilled // by standing: nil when not stated
	Limit    map[string]string             // spent, used, reached; nil when not stated
}

// Line is what one line of a document must say: the fields that are stated.
type Line struct {
	Quantity *int64 // milli-GPU-seconds
	Amount   *money.Rounded
	Texts    map[string]string // sku, region, service_tier, pricing_mode
	Coverage map[string]int64  // measured, inferred, missing, top_up: milli-GPU-seconds
	Rows     []Row             // nil when not stated
}

// Row is the part of a line at one unit price.
type Row struct {
	Quantity   *int64
	PerGPUHour string
}

// Unbilled is time that was leased and is not billed.
type Unbilled struct {
	Reason   string
	Quantity int64 // milli-GPU-seconds
}

// Refusal is a statement or message that cannot be taken, as it stands at the end.
type Refusal struct {
	Reason string
}

// Device is what samples say of a device over the whole scenario, in seconds; only what is stated is compared.
type Device struct {
	Device  string
	Seconds map[string]int64 // seen_leased, seen_unleased, ghost, leak
}

// Parse reads and checks a scenario file. The error is a contract.Errors with everything found, each with its place and what
// to write instead.
func Parse(file string, data []byte) (*Scenario, error) {
	p := &parsing{reader: &reader{file: file}, s: &Scenario{File: file, GraceSeconds: contract.DefaultGraceSeconds, source: data}}
	if root, ok := p.tree(data); ok {
		p.root(root)
	}
	if len(p.errs) > 0 {
		return nil, sorted(p.errs)
	}
	return p.s, nil
}

// parsing is a file on its way to a Scenario.
type parsing struct {
	*reader
	s         *Scenario
	contracts []*contract.Contract // as signed, in order of the file
	register  *contract.Register   // with everything that the file states
	events    []event
	samples   []sampled
	batches   int64 // that the samples unfold to
}

func (p *parsing) root(n ast.Node) {
	s, ok := p.section(n, "", "story", "stack", "grace", "contracts", "events", "close", "expect", "refusals", "unbilled", "devices")
	if !ok {
		return
	}
	need(s, "story", "say in a sentence what happens and why the bill is right", text, &p.s.Story)
	set(s, "stack", parseBool, &p.s.Stack)
	set(s, "grace", parseSeconds, &p.s.GraceSeconds)
	if !s.has("contracts") {
		s.missing("contracts", "write at least one contract")
	}
	for _, n := range s.list("contracts") {
		p.contract(n)
	}
	for i, n := range s.list("events") {
		p.event(n, fmt.Sprintf("events[%d]", i))
	}
	if len(p.errs) > 0 {
		return // periods need their contracts
	}
	p.log()
	for i, n := range s.list("close") {
		p.close(n, fmt.Sprintf("close[%d]", i))
	}
	for i, n := range s.list("expect") {
		p.expect(n, fmt.Sprintf("expect[%d]", i))
	}
	p.s.Unbilled = p.unbilled(s, "unbilled")
	if s.has("refusals") {
		p.s.Refusals = []Refusal{}
	}
	for i, n := range s.list("refusals") {
		p.refusal(n, fmt.Sprintf("refusals[%d]", i))
	}
	for i, n := range s.list("devices") {
		p.device(n, fmt.Sprintf("devices[%d]", i))
	}
}

func (p *parsing) contract(n ast.Node) {
	c, err := contract.ParseNode(p.file, n)
	if err != nil {
		p.take(n, err)
		return
	}
	if slices.ContainsFunc(p.contracts, func(o *contract.Contract) bool { return o.ID == c.ID }) {
		p.fail(start(n), "contracts", fmt.Sprintf("contract %s is written twice", c.ID), "change it with contract_amended")
		return
	}
	p.contracts = append(p.contracts, c)
}

// close reads one period that closes, and lets the scenario run until then.
func (p *parsing) close(n ast.Node, field string) {
	s, ok := p.section(n, field, "contract", "period")
	if !ok {
		return
	}
	if period, ok := p.period(s); ok {
		p.s.Close = append(p.s.Close, period)
		p.s.until = max(p.s.until, period.At)
	}
}

// period finds the one period that the fields contract and period name.
func (p *parsing) period(s section) (Period, bool) {
	var id, named string
	need(s, "contract", "name the contract", text, &id)
	need(s, "period", "write the month or date it starts in, such as 2026-02", text, &named)
	if id == "" || named == "" {
		return Period{}, false
	}
	v, ok := p.register.Last(id)
	if !ok {
		p.fail(start(s.values["contract"]), s.field, fmt.Sprintf("contract %.60q is not in this file", id), "name one of its contracts")
		return Period{}, false
	}
	c := v.Contract
	periods, err := p.periodsIn(c, named)
	at := start(s.values["period"])
	switch {
	case err != nil:
		p.failure(s.values["period"], s.field, err)
	case len(periods) == 0:
		p.fail(at, s.field, fmt.Sprintf("no period of %s starts in %s", id, named), "write the local month or date in which it starts")
	case len(periods) > 1:
		second := periods[1].From
		p.fail(at, s.field, fmt.Sprintf("%d periods of %s start in %s, the second at %s", len(periods), id, named, p.zone(id, second).Text(second)),
			"write the local date or the instant")
	default:
		whole := periods[0]
		grace := p.s.GraceSeconds
		if c.Billing.GraceKnown {
			grace = c.Billing.GraceSeconds
		}
		return Period{
			Contract: id, Customer: c.Customer, Currency: c.Currency, Span: whole, At: whole.To + span.Second(grace), Line: at.Position.Line, text: named,
		}, true
	}
	return Period{}, false
}

// zone is the contract's at an instant.
func (p *parsing) zone(id string, at span.Second) calendar.Zone {
	v, _ := p.register.Governing(id, at)
	return v.Contract.Zone
}
