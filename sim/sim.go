package sim

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Options change a run; the zero value is the product as it is, with every fault.
type Options struct {
	Bug Bug // planted, to show that it is found
	// Without leaves events of these groups out of the story, WithoutFaults kinds of fault, FaultsFrom the first so many
	// faults: that is how a history is made smaller.
	Without       map[string]bool
	WithoutFaults map[string]bool
	FaultsFrom    int
	Plain         bool                             // only what the first stream of dice draws
	Tell          func(format string, args ...any) // the story as it happens
}

// Result is what came of one seed.
type Result struct {
	Seed       uint64
	Failure    error  // nil when every promise was kept
	Transcript string // a hash over every step, fault and message: the same seed gives the same
	Faults     int    // drawn, those left out included
	Groups     []string
	Figures    Figures
}

// Figures count what a run, or many, went through.
type Figures struct {
	Seeds, HeldSeconds, SampledSeconds         int64
	MostSeconds                                int64 // of one seed, held and sampled
	Crashes, Ticks, Cuts                       int
	Invoices, Corrections, Restored, Rebuilt   int
	Carried, Facts, Batches, Audits, OwedLines int
	Faults                                     map[string]int
	Counts                                     map[string]int // what the second stream of dice drew, and what came of it
}

func (f *Figures) count(what string, n int) {
	if f.Counts == nil {
		f.Counts = map[string]int{}
	}
	f.Counts[what] += n
}

// Add puts another run's figures to these.
func (f *Figures) Add(o Figures) {
	f.Seeds, f.HeldSeconds, f.SampledSeconds = f.Seeds+o.Seeds, f.HeldSeconds+o.HeldSeconds, f.SampledSeconds+o.SampledSeconds
	f.MostSeconds = max(f.MostSeconds, o.MostSeconds)
	f.Crashes, f.Ticks, f.Cuts = f.Crashes+o.Crashes, f.Ticks+o.Ticks, f.Cuts+o.Cuts
	f.Invoices, f.Corrections = f.Invoices+o.Invoices, f.Corrections+o.Corrections
	f.Restored, f.Rebuilt, f.Carried = f.Restored+o.Restored, f.Rebuilt+o.Rebuilt, f.Carried+o.Carried
	f.Facts, f.Batches, f.Audits, f.OwedLines = f.Facts+o.Facts, f.Batches+o.Batches, f.Audits+o.Audits, f.OwedLines+o.OwedLines
	if f.Faults == nil {
		f.Faults = map[string]int{}
	}
	for k, n := range o.Faults {
		f.Faults[k] += n
	}
	for k, n := range o.Counts {
		f.count(k, n)
	}
}

// String is the figures for a person.
func (f *Figures) String() string {
	text := fmt.Sprintf("%d seeds: %d device-seconds held, %d sampled, at most %d in one seed; %d facts, %d batches, %d ticks, %d cuts; "+
		"%d invoices and %d corrections, %d bills audited as of their cut, %d lines at the end; %d periods carried; "+
		"%d crashes, %d logs restored, %d table directories lost\nfaults:", f.Seeds, f.HeldSeconds, f.SampledSeconds, f.MostSeconds, f.Facts, f.Batches,
		f.Ticks, f.Cuts, f.Invoices, f.Corrections, f.Audits, f.OwedLines, f.Carried, f.Crashes, f.Restored, f.Rebuilt)
	for _, k := range slices.Sorted(maps.Keys(f.Faults)) {
		text += fmt.Sprintf(" %s %d;", k, f.Faults[k])
	}
	for _, k := range slices.Sorted(maps.Keys(f.Counts)) {
		text += fmt.Sprintf("\n%s %d", k, f.Counts[k])
	}
	return text
}

// Line reproduces a seed.
func Line(seed uint64) string { return fmt.Sprintf("go test ./sim -run TestSeed -seed=%d -v", seed) }

// Run plays one seed: safety with faults, then healing, then what is owed must be billed.
func Run(seed uint64, o Options) Result {
	r := newRoad(seed, o)
	r.safety()
	r.liveness()
	if r.err == nil {
		r.err = r.audit()
	}
	result := Result{Seed: seed, Failure: r.err, Transcript: hex.EncodeToString(r.f.hash.Sum(nil)), Faults: r.f.n, Figures: r.figures}
	result.Figures.Seeds, result.Figures.Faults = 1, r.f.counts
	result.Figures.MostSeconds = r.figures.HeldSeconds + r.figures.SampledSeconds
	result.Groups = write(seed, o.Plain).groups()
	return result
}
