package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Shrink makes a failing history smaller, greedily: whole groups of events, kinds of fault, then the first faults are left out
// as long as it still fails. The result is a story to read, and the options that replay it.
func Shrink(seed uint64, o Options) (Options, Result, string) {
	o.Tell = nil
	o.Without, o.WithoutFaults = orEmpty(o.Without), orEmpty(o.WithoutFaults)
	last := Run(seed, o)
	fails := func() bool {
		r := Run(seed, o)
		if r.Failure != nil {
			last = r
		}
		return r.Failure != nil
	}
	for again := true; again && last.Failure != nil; {
		again = false
		for _, group := range last.Groups {
			if !o.Without[group] {
				again = drop(o.Without, group, fails) || again
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(last.Figures.Faults)) {
			if !o.WithoutFaults[kind] {
				again = drop(o.WithoutFaults, kind, fails) || again
			}
		}
		for step := last.Faults; step > 0; step /= 2 {
			o.FaultsFrom += step
			if !fails() {
				o.FaultsFrom -= step
			}
		}
	}
	var story strings.Builder
	o.Tell = func(format string, args ...any) { fmt.Fprintf(&story, format+"\n", args...) }
	last = Run(seed, o)
	o.Tell = nil
	fmt.Fprintf(&story, "seed %d: %v\n%s\n", seed, last.Failure, Line(seed))
	return o, last, story.String()
}

func orEmpty(m map[string]bool) map[string]bool {
	if m == nil {
		return map[string]bool{}
	}
	return maps.Clone(m)
}

func drop(out map[string]bool, name string, fails func() bool) bool {
	out[name] = true
	if fails() {
		return true
	}
	delete(out, name)
	return false
}
