package contract

import (
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
)

// Arrears is what a provider does about a customer who is behind with paying: steps, each from an instant after the arrears began.
// Nothing here starts it: the provider's system states what it did by lease facts, and those decide what is billed.
type Arrears []ArrearsStep

// ArrearsStep holds from its instant until the next step's.
type ArrearsStep struct {
	AfterSeconds int64 // since the arrears began
	Do           ArrearsAction
}

// ArrearsAction is what is done to the customer's leases, from the mildest to the last.
type ArrearsAction uint8

// The closed list of actions.
const (
	ArrearsWarn    ArrearsAction = iota // the customer is told; all goes on and is billed
	ArrearsStop                         // leases are suspended: no GPU time is billed; what they keep is, as it is metered: the grace
	ArrearsFreeze                       // what is kept is locked, and no longer metered
	ArrearsRelease                      // leases end by arrears, and what was kept is gone
)

// ArrearsActionNames lists the actions as a contract writes them, in the order of the constants.
func ArrearsActionNames() []string { return []string{"warn", "stop", "freeze", "release"} }

func (a ArrearsAction) String() string { return nameOf(ArrearsActionNames(), int(a)) }

func arrearsFields() []string { return []string{"at", "after", "do"} }

func (r *reader) arrears(s section, c *Contract) {
	for _, f := range r.sections(s, "arrears", arrearsFields(), nil) {
		var step ArrearsStep
		_, at := f.values["at"]
		_, after := f.values["after"]
		if at == after {
			r.failf(f.node, f.field, "write `at: 0` for the first step, `after: 24h` for a later one", "a step has one instant")
			continue
		}
		set(r, f, "at", "write 0", parseAtOnce, func(struct{}) {})
		_, timed := f.values["at"]
		set(r, f, "after", "write 24h", parseDuration, func(v int64) { step.AfterSeconds, timed = v, true })
		action := func(text string) (int, error) { return parseChoice(text, ArrearsActionNames()) }
		v, known := need(r, f, "do", "write warn, stop, freeze or release", action)
		step.Do = ArrearsAction(v)
		if !timed || !known {
			continue
		}
		if n := len(c.Arrears); n > 0 {
			before := c.Arrears[n-1]
			switch {
			case step.AfterSeconds <= before.AfterSeconds:
				r.failf(f.node, f.field, "let the steps rise", "it holds after %s, the step before it after %s", DurationText(step.AfterSeconds), DurationText(before.AfterSeconds))
			case step.Do < before.Do || step.Do == before.Do && step.Do != ArrearsWarn:
				r.failf(f.values["do"], join(f.field, "do"), "go from warn to stop, freeze and release; only warn comes twice", "%s stands after %s", step.Do, before.Do)
			}
		}
		c.Arrears = append(c.Arrears, step)
	}
}

func parseAtOnce(text string) (struct{}, error) {
	if text != "0" {
		return struct{}{}, fmt.Errorf("%.40q is not the beginning; write at: 0, or after: 24h", text)
	}
	return struct{}{}, nil
}

// At tells where a customer stands who has been in arrears since an instant: how many of the steps have begun, and when the next one
// is due, span.Open when none is left. Instants before since are of nobody in arrears, so no step holds.
func (a Arrears) At(since, now span.Second) (begun int, due span.Second) {
	begun, _ = slices.BinarySearchFunc(a, int64(now-since)+1, func(s ArrearsStep, elapsed int64) int {
		if s.AfterSeconds < elapsed {
			return -1
		}
		return 1
	})
	if begun == len(a) {
		return begun, span.Open
	}
	return begun, since + span.Second(a[begun].AfterSeconds)
}
