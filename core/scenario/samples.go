package scenario

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// MaxBatches bounds what samples in shorthand unfold to: two years of one node, by the minute.
const MaxBatches = 1 << 20

// group is what one run of a node's collector says of a span, in batches of one length; known is 0 for batches that
// arrive as soon as they are over.
type group struct {
	node  string
	run   uint64
	in    span.Span
	batch int64
	known span.Second
}

// sampled is one device of a group. The node speaks for all of the span, also where the device is missing.
type sampled struct {
	group
	device  string
	busy    uint8
	every   int64 // seconds between two looks, from the full minute on
	missing []span.Span
}

// sample reads one entry of samples in shorthand.
func (p *parsing) sample(n ast.Node, field string) {
	s, ok := p.section(n, field, "from", "to", "samples")
	if !ok {
		return
	}
	errs := len(p.errs)
	var m sampled
	m.in = p.interval(s)
	f, ok := p.section(s.values["samples"], join(field, "samples"), "node", "device", "util", "missing", "run", "known", "batch", "every")
	if !ok {
		return
	}
	m.run, m.batch, m.every = 1, span.SecondsPerMinute, 1
	need(f, "node", "name the node", text, &m.node)
	need(f, "device", "name the device", text, &m.device)
	need(f, "util", "write 85 or unknown", parseUtil, &m.busy)
	set(f, "run", parseRun, &m.run)
	set(f, "known", span.Parse, &m.known)
	p.learnt(s, max(m.known, m.in.To))
	set(f, "batch", parseBatch, &m.batch)
	set(f, "every", parseBatch, &m.every)
	for i, gap := range f.list("missing") {
		if g, ok := p.section(gap, fmt.Sprintf("%s.missing[%d]", f.field, i), "from", "to"); ok {
			m.missing = append(m.missing, p.interval(g))
		}
	}
	if len(p.errs) > errs {
		return
	}
	if p.batches += int64(m.in.To-m.in.From)/m.batch + 1; p.batches > MaxBatches {
		p.fail(start(n), field, fmt.Sprintf("the samples up to here make more than %d batches", MaxBatches), "tell a shorter story")
		return
	}
	p.samples = append(p.samples, m)
}

// interval reads [from, to).
func (p *parsing) interval(s section) span.Span {
	var in span.Span
	need(s, "from", "write an instant such as 2026-02-28T13:00:00Z", span.Parse, &in.From)
	need(s, "to", "write the first instant that is not in it", span.Parse, &in.To)
	if s.has("from") && s.has("to") && in.Empty() {
		p.fail(start(s.values["to"]), s.field, fmt.Sprintf("%s is not after %s", in.To, in.From), "write a later end")
	}
	return in
}

// measure turns samples into batches as a collector sends them. Devices of one group share its batches; a device that is
// sampled again goes into later ones. The batches of a run are numbered in the order in which they arrive.
func (p *parsing) measure() {
	var all []replay.Measurement
	for rest := p.samples; len(rest) > 0; {
		var together, later []sampled
		for _, m := range rest {
			twice := slices.ContainsFunc(together, func(o sampled) bool { return o.device == m.device })
			if m.group == rest[0].group && !twice {
				together = append(together, m)
			} else {
				later = append(later, m)
			}
		}
		all = append(all, batches(together)...)
		rest = later
	}
	slices.SortStableFunc(all, func(a, b replay.Measurement) int {
		return cmp.Or(cmp.Compare(a.Known, b.Known), cmp.Compare(a.Batch.Node, b.Batch.Node), cmp.Compare(a.Batch.Run, b.Batch.Run),
			cmp.Compare(a.Batch.Minute, b.Batch.Minute), cmp.Compare(a.Batch.Spoken.First(), b.Batch.Spoken.First()))
	})
	number(all)
	p.s.measurements = all
}

// batches cuts one group into batches.
func batches(devices []sampled) []replay.Measurement {
	slices.SortFunc(devices, func(a, b sampled) int { return cmp.Compare(a.device, b.device) })
	g := devices[0].group
	var out []replay.Measurement
	for from := g.in.From; from < g.in.To; {
		to := min(g.in.To, from-from%span.Second(g.batch)+span.Second(g.batch))
		b := usage.Batch{
			Node: g.node, Boot: "boot-1", Run: g.run, Minute: from.Minute(), Spoken: span.MaskOf(from.Minute(), span.Span{From: from, To: to}),
			Clock: usage.ClockEvidence{State: usage.ClockScripted},
		}
		for i := range devices {
			b.Blocks = append(b.Blocks, devices[i].block(b.Minute, b.Spoken))
		}
		known := to
		if g.known != 0 {
			known = g.known
		}
		out = append(out, replay.Measurement{Known: known, Batch: b})
		from = to
	}
	return out
}

// block is the device's part of a batch.
func (m *sampled) block(minute span.Minute, spoken span.SecondMask) []byte {
	var seen span.SecondMask
	for i := 0; i < span.SecondsPerMinute; i += int(m.every) {
		seen |= span.Bit(i)
	}
	seen &= spoken
	for _, gap := range m.missing {
		seen &^= span.MaskOf(minute, gap)
	}
	b := usage.Block{Device: m.device, Seen: seen}
	seen.Each(func(i int) { b.Busy[i] = m.busy })
	if m.busy == usage.BusyUnknown && seen != 0 {
		b.Reason = usage.ReasonNotAvailable
	}
	return b.Append(nil)
}

// number names the batches of every run from 1; a run's first batch names the last one of the run before.
func number(all []replay.Measurement) {
	type run struct {
		node string
		run  uint64
	}
	last := map[run]uint64{}
	for i := range all {
		b := &all[i].Batch
		k := run{b.Node, b.Run}
		last[k]++
		b.Seq = last[k]
	}
	for i := range all {
		b := &all[i].Batch
		if before := last[run{b.Node, b.Run - 1}]; b.Seq == 1 && before > 0 {
			b.PreviousRun, b.PreviousSeq = b.Run-1, before
		}
	}
}
