package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// event is one statement and when it became known.
type event struct {
	known span.Second
	fact  fact.Fact
}

func kinds() []string {
	return []string{
		"lease_started", "lease_resized", "lease_state_changed", "lease_stopped", "refusal_waived", "refusal_carried", "contract_amended",
		"price_book_published", "spot_price_changed", "meter_recorded", "package_purchased", "package_ended", "contract_terminated",
		"device_declared",
	}
}

// event reads one entry: samples, or one statement with its instant.
func (p *parsing) event(n ast.Node, field string) {
	for _, pair := range pairs(n) {
		if scalarText(pair.Key) == "samples" {
			p.sample(n, field)
			return
		}
	}
	s, ok := p.section(n, field, append(kinds(), "at", "known", "key", "refused")...)
	if !ok {
		return
	}
	var stated []string
	for _, k := range kinds() {
		if s.has(k) {
			stated = append(stated, k)
		}
	}
	if len(stated) != 1 {
		p.fail(start(n), field, fmt.Sprintf("an event states one thing, not %d", len(stated)), "write one of "+strings.Join(kinds(), ", "))
		return
	}
	errs := len(p.errs)
	var at, known span.Second
	need(s, "at", "write an instant such as 2026-02-28T13:00:00Z", span.Parse, &at)
	known = at
	set(s, "known", span.Parse, &known)
	p.learnt(s, known)
	key := field
	set(s, "key", text, &key)
	body := p.body(s, stated[0], at)
	if len(p.errs) == errs {
		p.state(s, stated[0], event{known, fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body}})
	}
}

// learnt refuses what nobody will have learnt before 2200: the scenario would run until then, for hours and out of memory. What lies ahead may
// be stated at any instant, also at 9999-12-31, by which others say "open".
func (p *parsing) learnt(s section, known span.Second) {
	if known >= contract.Beyond {
		p.fail(start(s.node), s.field, fmt.Sprintf("the scenario would have to run until %s", known), "state with `known` when it was learnt, before 2200")
	}
}

// state keeps an event that the edge takes, and holds one that it must refuse against the reason given.
func (p *parsing) state(s section, kind string, e event) {
	err := e.fact.Validate()
	var refused string
	set(s, "refused", text, &refused)
	switch {
	case refused == "" && err != nil:
		p.fail(start(s.values[kind]), join(s.field, kind), err.Error(), "")
	case refused == "":
		p.events = append(p.events, e)
	case err == nil:
		p.fail(start(s.values["refused"]), s.field, "the statement is taken", "remove `refused:`")
	case !strings.Contains(err.Error(), refused):
		p.fail(start(s.values["refused"]), s.field, "the statement is refused otherwise: "+err.Error(), "correct `refused:`")
	}
}

// body reads the fields of a statement; its instant is the event's.
func (p *parsing) body(s section, kind string, at span.Second) fact.Body {
	n, field := s.values[kind], join(s.field, kind)
	switch kind {
	case "lease_started":
		return p.leaseStarted(n, field, at)
	case "lease_resized":
		b := &fact.LeaseResized{At: at}
		if f, ok := p.section(n, field, "lease", "devices", "count", "share_milli"); ok {
			set(f, "lease", text, &b.Lease)
			b.Devices, b.Count, b.ShareMilli = holding(f)
		}
		return b
	case "lease_state_changed":
		b := &fact.LeaseStateChanged{At: at}
		if f, ok := p.section(n, field, "lease", "state"); ok {
			set(f, "lease", text, &b.Lease)
			set(f, "state", func(v string) (fact.LeaseState, error) { return fact.LeaseState(v), nil }, &b.State)
		}
		return b
	case "lease_stopped":
		b := &fact.LeaseStopped{At: at}
		if f, ok := p.section(n, field, "lease", "by"); ok {
			set(f, "lease", text, &b.Lease)
			set(f, "by", func(v string) (fact.EndedBy, error) { return fact.EndedBy(v), nil }, &b.By)
		}
		return b
	case "device_declared":
		b := &fact.DeviceDeclared{At: at}
		if f, ok := p.section(n, field, "device", "saleable_milli"); ok {
			set(f, "device", text, &b.Device)
			set(f, "saleable_milli", parseCount, &b.SaleableMilli)
		}
		return b
	case "refusal_waived", "refusal_carried":
		return p.decision(n, field, kind)
	case "contract_amended":
		return p.amendment(n, field, at)
	default:
		return p.priced(n, field, kind, at)
	}
}

func (p *parsing) decision(n ast.Node, field, kind string) fact.Body {
	if kind == "refusal_waived" {
		b := &fact.RefusalWaived{}
		if f, ok := p.section(n, field, "lease", "from", "to", "by", "note"); ok {
			set(f, "lease", text, &b.Lease)
			set(f, "from", span.Parse, &b.From)
			set(f, "to", span.Parse, &b.To)
			set(f, "by", text, &b.By)
			set(f, "note", text, &b.Note)
		}
		return b
	}
	b := &fact.RefusalCarried{}
	if f, ok := p.section(n, field, "contract", "period_start", "by", "note"); ok {
		set(f, "contract", text, &b.Contract)
		set(f, "period_start", span.Parse, &b.PeriodStart)
		set(f, "by", text, &b.By)
		set(f, "note", text, &b.Note)
	}
	return b
}

func (p *parsing) leaseStarted(n ast.Node, field string, at span.Second) fact.Body {
	b := &fact.LeaseStarted{At: at}
	f, ok := p.section(n, field, "lease", "customer", "contract", "sku", "pricing_mode", "region", "service_tier", "dedicated",
		"devices", "count", "share_milli", "labels")
	if !ok {
		return b
	}
	set(f, "lease", text, &b.Lease)
	set(f, "customer", text, &b.Customer)
	set(f, "contract", text, &b.Contract)
	set(f, "sku", text, &b.SKU)
	set(f, "pricing_mode", text, &b.PricingMode)
	set(f, "region", text, &b.Region)
	set(f, "service_tier", text, &b.ServiceTier)
	set(f, "dedicated", parseBool, &b.Dedicated)
	b.Devices, b.Count, b.ShareMilli = holding(f)
	for _, pair := range pairs(f.values["labels"]) {
		if b.Labels == nil {
			b.Labels = map[string]string{}
		}
		b.Labels[scalarText(pair.Key)] = scalarText(pair.Value)
	}
	return b
}

// holding reads devices with their shares, or count and share of an unplaced lease.
func holding(s section) (devices []fact.Share, count, share int64) {
	for i, n := range s.list("devices") {
		f, ok := s.r.section(n, fmt.Sprintf("%s.devices[%d]", s.field, i), "node", "device", "share_milli")
		if !ok {
			continue
		}
		var d fact.Share
		set(f, "node", text, &d.Node)
		set(f, "device", text, &d.Device)
		set(f, "share_milli", parseCount, &d.ShareMilli)
		devices = append(devices, d)
	}
	set(s, "count", parseCount, &count)
	set(s, "share_milli", parseCount, &share)
	return devices, count, share
}

// amendment reads a new document of a contract, in force from the event's instant unless it names another one.
func (p *parsing) amendment(n ast.Node, field string, at span.Second) fact.Body {
	b := &fact.ContractAmended{Effective: at}
	f, ok := p.section(n, field, "contract", "effective", "document")
	if !ok {
		return b
	}
	set(f, "contract", text, &b.Contract)
	set(f, "effective", span.Parse, &b.Effective)
	if !f.has("document") {
		f.missing("document", "write the whole contract as it is from then on")
		return b
	}
	c, err := contract.ParseNode(p.file, f.values["document"])
	if err != nil {
		p.take(n, err)
		return b
	}
	b.Document = string(c.Source)
	return b
}

// log puts everything in the order in which it became known. Contracts are known before all else.
func (p *parsing) log() {
	p.measure()
	first := span.Open
	for _, e := range p.events {
		first, p.s.until = min(first, e.known), max(p.s.until, e.known)
	}
	for _, m := range p.s.measurements {
		first, p.s.until = min(first, m.Known), max(p.s.until, m.Known)
	}
	for _, c := range p.contracts {
		first = min(first, c.Term.From)
	}
	for _, c := range p.contracts {
		body := &fact.ContractSigned{Contract: c.ID, Customer: c.Customer, Document: string(c.Source)}
		p.s.statements = append(p.s.statements, replay.Statement{
			Known: first, Fact: fact.Fact{Key: "contract/" + c.ID, Hash: fact.HashJSON(body), Body: body},
		})
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return cmp.Compare(a.known, b.known) })
	for _, e := range p.events {
		p.s.statements = append(p.s.statements, replay.Statement{Known: e.known, Fact: e.fact})
	}
	p.register = contract.NewRegister()
	known := map[string]bool{}
	for i, s := range p.s.statements {
		if f := s.Fact; !known[f.Key] {
			known[f.Key], f.Seq = true, uint64(i+1)
			p.register.Apply(f)
		}
	}
}
