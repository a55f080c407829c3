package bill

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// Block is a reason why a period cannot close. It is shown to the operator with its remedy.
type Block struct {
	Contract, Customer string
	Period             span.Span
	Reason             string
}

// Check finds what blocks a close: a halted customer, a broken conservation identity, refused time of the period, refused
// time of the customer that found no contract, or refusals of the customer's facts. The last three block unless
// the cut knows that they were carried.
func (s *Invoicer) Check(d Due, cut Cut, totals, uncontracted []meter.Total, refusals []meter.Refusal) *Block {
	if b := s.CheckCorrection(d, cut, totals); b != nil {
		return b
	}
	if at := s.carried[periodKey{d.Contract, d.Period.From}]; at != 0 && at < cut.known() {
		return nil
	}
	refused := slices.DeleteFunc(append(slices.Clone(totals), uncontracted...), func(t meter.Total) bool { return t.Key.Standing != meter.Refused })
	if len(refused) > 0 {
		t := slices.MinFunc(refused, compareLeases) // the same one in whatever order tables give their totals
		return d.block("lease %s has %s refused GPU-hours (%s); mend its cause, or state refusal.waived or refusal.carried",
			t.Lease, GPUHours(t.Quantity), t.Key.Reason)
	}
	for _, r := range refusals {
		if r.Customer == d.Customer && (r.At == 0 || r.At < d.Period.To) {
			return d.block("fact %s is refused (%s: %s); state what is missing, or refusal.carried", r.ID, r.Reason, r.Detail)
		}
	}
	return nil
}

func compareLeases(a, b meter.Total) int {
	return cmp.Or(cmp.Compare(a.Lease, b.Lease), meter.CompareKeys(a.Key, b.Key), cmp.Compare(a.Device, b.Device))
}

// CheckCorrection finds what blocks even a correction, which bills no refused time: a halted customer, or a broken
// conservation identity.
func (s *Invoicer) CheckCorrection(d Due, cut Cut, totals []meter.Total) *Block {
	if reason, ok := s.halted[d.Customer]; ok {
		return d.block("the customer is halted: %s", reason)
	}
	if b := s.conservation(d, cut, totals); b != "" {
		return d.block("%s", b)
	}
	return nil
}

func (d Due) block(format string, args ...any) *Block {
	return &Block{d.Contract, d.Customer, d.Period, fmt.Sprintf(format, args...)}
}

// conservation holds the ledger against occupancy as the cut knew it: leased = priced + waived + refused, to the
// milli-second.
func (s *Invoicer) conservation(d Due, cut Cut, totals []meter.Total) string {
	var leased, keyed int64
	for _, t := range s.totals[periodKey{d.Contract, d.Period.From}] {
		if t.at <= cut.Done { // a cut states what changed since the one before
			leased = t.leased
		}
	}
	for _, t := range totals {
		if t.Key.Kind == meter.Leased {
			keyed += t.Quantity
		}
	}
	if leased != keyed {
		return fmt.Sprintf("conservation: leases hold %d milli-GPU-seconds, the ledger %d", leased, keyed)
	}
	return ""
}
