package contract

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

// Reservation is capacity of a SKU that a fee pays for, used or not: time that it covers costs nothing more (design page 3b,
// Reserved, forward, packages). Its time begins and ends at local midnights, because its fee counts local days.
type Reservation struct {
	Name     string
	Quantity int64 // whole GPUs
	Price    Price // fee of one of them per gpu-day, gpu-week, gpu-month, gpu-quarter or gpu-year
	Span     span.Span
	Region   string // only leases there are covered; empty for anywhere
	Advance  bool   // the fee of a period is paid when it begins; else when it closes
	Slices   bool   // leases of the SKU's slices are covered too, by their share
}

// Forward is capacity of a SKU at a price agreed ahead: time that it covers costs that price, which takes no region, tier or
// dedicated factor.
type Forward struct {
	Name      string
	Quantity  int64 // whole GPUs
	Price     Price // of a unit with a fixed length: what was not taken of a month is no part of any month
	Span      span.Span
	Region    string // only leases there are covered; empty for anywhere
	TakeOrPay bool   // what is not used is paid too
}

func reservationFields() []string {
	return []string{"name", "quantity", "price", "from", "to", "region", "burst", "pay", "slices"}
}

func forwardFields() []string {
	return []string{"name", "quantity", "price", "from", "to", "region", "take_or_pay"}
}

// PayNames lists when a fee is paid as a contract writes it, the default first (design page 3b, Advance fees).
func PayNames() []string { return []string{"arrears", "advance"} }

// pay reads when a fee is paid.
func (r *reader) pay(f section, advance *bool) {
	when := func(text string) (int, error) { return parseChoice(text, PayNames()) }
	set(r, f, "pay", "write advance", when, func(chosen int) { *advance = chosen == 1 })
}

const remedyQuantity = "write how many GPUs, such as 8"

func (r *reader) reserved(s section, rate *Rate) {
	for _, f := range r.sections(s, "reserved", reservationFields(), nil) {
		var out Reservation
		out.Name, _ = need(r, f, "name", "name it, such as base", parseName)
		out.Quantity, _ = need(r, f, "quantity", remedyQuantity, parseGPUs)
		out.Price, _ = need(r, f, "price", "write 15120.00/gpu-month", parseFee)
		set(r, f, "region", "name a region", parseName, func(v string) { out.Region = v })
		set(r, f, "burst", "write on_demand", parseOnDemand, func(struct{}) {})
		r.pay(f, &out.Advance)
		out.Span = r.commitmentSpan(f, r.localMidnight)
		r.ownName(f, *rate, out.Name)
		r.coversSlices(f, rate.SKU, &out)
		rate.Reserved = append(rate.Reserved, out)
	}
}

func (r *reader) forward(s section, rate *Rate) {
	for _, f := range r.sections(s, "forward", forwardFields(), nil) {
		out := Forward{Name: "forward"}
		set(r, f, "name", "name it, such as summer", parseName, func(v string) { out.Name = v })
		out.Quantity, _ = need(r, f, "quantity", remedyQuantity, parseGPUs)
		out.Price, _ = need(r, f, "price", "write 24.00/gpu-hour", parseForwardPrice)
		set(r, f, "region", "name a region", parseName, func(v string) { out.Region = v })
		set(r, f, "take_or_pay", "write true", parseBool, func(v bool) { out.TakeOrPay = v })
		out.Span = r.commitmentSpan(f, r.bound)
		r.ownName(f, *rate, out.Name)
		rate.Forward = append(rate.Forward, out)
	}
}

// ownName refuses a name that another commitment of the SKU has: the name is what tells them apart on a bill. A forward without a
// name is called forward.
func (r *reader) ownName(f section, rate Rate, name string) {
	if !rate.commits(name) || name == "" {
		return
	}
	at := f.values["name"]
	if at == nil {
		at = f.node
	}
	r.failf(at, join(f.field, "name"), "write another name", "%q is the name of another commitment of the SKU", name)
}

func (r Rate) commits(name string) bool {
	_, forward := r.ForwardOf(name)
	return forward || slices.ContainsFunc(r.Reserved, func(x Reservation) bool { return x.Name == name })
}

// ForwardOf is the forward of that name.
func (r Rate) ForwardOf(name string) (Forward, bool) {
	i := slices.IndexFunc(r.Forward, func(x Forward) bool { return x.Name == name })
	if i < 0 {
		return Forward{}, false
	}
	return r.Forward[i], true
}

// sections reads a list of mappings of known fields.
func (r *reader) sections(s section, key string, known, unsupported []string) []section {
	field := join(s.field, key)
	list, ok := s.values[key].(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.failf(s.values[key], field, "write `- {"+known[0]+": ...}`, or remove it", "a list is expected, not %s", emptyOr(kind(s.values[key]), ok))
		return nil
	}
	var out []section
	for i, n := range list.Values {
		if f, ok := r.section(n, fmt.Sprintf("%s[%d]", field, i), known, unsupported); ok {
			out = append(out, f)
		}
	}
	return out
}

// commitmentSpan reads from and to, which must lie in the local days of the term: beyond it no contract is there to pay.
func (r *reader) commitmentSpan(f section, bound func(string) (span.Second, error)) span.Span {
	const remedy = "write a local date such as 2026-01-01"
	from, fromOK := need(r, f, "from", remedy, bound)
	to, toOK := need(r, f, "to", remedy, bound)
	term := r.contract.Term
	if !fromOK || !toOK || term.Empty() || r.contract.Zone.Equal(calendar.Zone{}) {
		return span.Span{}
	}
	zone := r.contract.Zone
	whole := span.Span{From: zone.StartOfDay(zone.DateOf(term.From)), To: term.To}
	if term.To != span.Open {
		whole.To = zone.StartOfDay(zone.DateOf(term.To - 1).AddDays(1))
	}
	switch {
	case to <= from:
		r.failf(f.values["to"], join(f.field, "to"), "write a later end", "it ends at %s and begins at %s", to, from)
	case from < whole.From:
		r.failf(f.values["from"], join(f.field, "from"), "write a date within the term", "it begins before the term, which begins at %s", term.From)
	case to > whole.To:
		r.failf(f.values["to"], join(f.field, "to"), "write a date within the term", "it ends after the term, which ends at %s", term.To)
	}
	return span.Span{From: from, To: to}
}

func (r *reader) bound(text string) (span.Second, error) {
	return parseBound(text, r.contract.Zone, !r.contract.Zone.Equal(calendar.Zone{}), true)
}

// localMidnight reads a local date, or open.
func (r *reader) localMidnight(text string) (span.Second, error) {
	if _, err := calendar.ParseDate(text); err != nil && text != "open" {
		return 0, fmt.Errorf("%.40q is not a local date; write one such as 2026-01-01, because the fee counts local days", text)
	}
	return r.bound(text)
}

// maxCommitmentGPUs bounds a quantity: a larger one is a slip of the pen.
const maxCommitmentGPUs = 1_000_000

func parseGPUs(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxCommitmentGPUs || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%.40q is no number of GPUs from 1 to %d; write 8", text, maxCommitmentGPUs)
	}
	return n, nil
}

func parseFee(text string) (Price, error) {
	p, err := parseGPUPrice(text, unitNames())
	if err == nil && p.Unit < GPUDay {
		err = fmt.Errorf("a reservation is paid by local days; write its price per gpu-day, gpu-week, gpu-month, gpu-quarter or gpu-year, not per %s", p.Unit)
	}
	return p, err
}

func parseForwardPrice(text string) (Price, error) {
	p, err := ParsePrice(text)
	if err == nil && p.Unit > GPUWeek {
		err = fmt.Errorf("a forward is paid by the second, and a %s has no fixed length; write 24.00/gpu-hour", p.Unit)
	}
	return p, err
}

func parseOnDemand(text string) (struct{}, error) {
	if text != "on_demand" {
		return struct{}{}, fmt.Errorf("%.40q is not supported by this version; write on_demand", text)
	}
	return struct{}{}, nil
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("neither true nor false; write true")
	}
	return text == "true", nil
}
