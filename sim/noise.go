package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// makeNoise sends the messages that nobody can read and that are due. One whose outcome is unknown is sent again.
func (r *road) makeNoise(next int64) {
	r.noisy = slices.DeleteFunc(slices.Clone(r.noisy), func(n noise) bool {
		if n.known > next {
			return false
		}
		sent := false
		r.act(stranger, func() error {
			_, err := r.log.Publish(context.Background(), n.Publication)
			sent = err == nil
			return err
		})
		return sent
	})
}

// expected says why a usage message must be quarantined, or nothing.
func (s *story) expected(m bus.Message) usage.QuarantineReason {
	for _, n := range s.noisy {
		if n.Subject == m.Subject && string(n.Data) == string(m.Data) {
			return n.reason
		}
	}
	return ""
}

// allQuarantined: every message that cannot be taken is listed with its reason, and no other. None of their seconds are stored:
// allSeen and allUnknown would find them.
func (r *road) allQuarantined(s *samples) error {
	open, err := r.tables.OpenRefusals(context.Background(), every)
	if err != nil {
		return err
	}
	listed := map[string]usage.QuarantineReason{}
	for _, x := range open {
		switch reason := usage.QuarantineReason(x.Reason); reason {
		default: // other refusals
		case usage.Undecodable, usage.WrongPartition, usage.AheadOfTick:
			listed[x.ID] = reason
			if x.Delta != 1 || x.Customer != "" {
				return fmt.Errorf("message %s is quarantined %d times, of customer %q", x.ID, x.Delta, x.Customer)
			}
		}
	}
	var wrong []string
	for _, list := range []map[string]usage.QuarantineReason{listed, s.quarantined} {
		for id := range list {
			if listed[id] != s.quarantined[id] {
				wrong = append(wrong, fmt.Sprintf("message %s is quarantined as %q, not as %q", id, listed[id], s.quarantined[id]))
			}
		}
	}
	r.figures.count("messages quarantined", len(listed))
	return first(wrong)
}

// allHalted: every period of a halted customer that is not closed is shown with the reason.
func (r *road) allHalted() error {
	shown := map[string]bool{}
	for _, b := range r.invoice[0].Blocked() {
		if r.watch.halted[b.Customer] > 0 && b.Reason == "the customer is halted: a check failed" {
			shown[b.Contract+" "+r.watch.versions[b.Contract][0].period(int64(b.Period.From))] = true
		}
	}
	var missing []string
	for contract := range r.watch.versions {
		if r.watch.halted[r.watch.customer(contract)] == 0 {
			continue
		}
		t := r.watch.latest(contract, every).terms
		for at := t.from; at < t.to; at = min(at-at%900+900, t.to) { // no edge is elsewhere
			period := contract + " " + t.period(at)
			if _, closed := r.watch.ends[period]; closed {
				continue
			}
			r.figures.count("halted: quarters of an hour in periods kept open", 1)
			if !shown[period] {
				missing = append(missing, "period "+period+" of a halted customer is neither closed nor shown as blocked")
			}
		}
	}
	return first(missing)
}
