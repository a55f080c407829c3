package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
	"github.com/gpuhour/gpuhour/services/nodes"
)

func listNodesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the nodes that have keys", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := look(c)
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error { return listNodes(c.Context(), c.OutOrStdout(), e.Bus(), o) })
		},
	}
	settings(c)
	return c
}

func listNodes(ctx context.Context, out io.Writer, b bus.Bus, o render.Options) error {
	r, err := nodes.Read(ctx, b)
	if err != nil {
		return err
	}
	if len(r.Names()) == 0 {
		fmt.Fprintln(out, "No node has a key: every batch is taken, signed or not. `gpuhour node keygen` and `gpuhour node enrol` change that.")
		return nil
	}
	t := render.Table{Width: o.Width, Colour: o.Colour, Columns: []render.Column{
		{Head: "Node", Fit: render.Wrap}, {Head: "Key"}, {Head: "State"}, {Head: "Stated (UTC)"}, {Head: "By", Fit: render.Wrap}, {Head: "Note", Fit: render.Fill},
	}}
	for _, node := range r.Names() {
		name := node
		for _, k := range r.Keys.Node(node) {
			s, _ := r.At(node, max(k.Enrolled, k.Revoked))
			by, note := saidBy(s.Body)
			t.Row(name, k.Public.Fingerprint(), keyState(k), stamp(s.Stored), by, note)
			name = ""
		}
		if len(r.Active(node)) == 0 {
			t.Note("", "no key is in force: every batch of this node is set aside")
		}
	}
	fmt.Fprint(out, t.String())
	fmt.Fprintln(out, "\nNodes without a key are not listed: their batches are taken, signed or not.")
	return nil
}

func keyState(k trust.Key) string {
	switch {
	case k.Revoked > 0:
		return "revoked"
	case k.Enrolled > 0:
		return "in force"
	default:
		return "unknown"
	}
}

func saidBy(b fact.Body) (by, note string) {
	switch b := b.(type) {
	case *fact.NodeEnrolled:
		return b.By, b.Note
	case *fact.NodeRevoked:
		return b.By, b.Note
	default:
		return "", ""
	}
}

func showNodeCommand() *cobra.Command {
	var since time.Duration
	var most int
	c := &cobra.Command{
		Use: "show NODE", Short: "Show a node's keys, last batch, devices and gaps", Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if since < time.Second {
				return fmt.Errorf("--since %v: write how long before the last batch to look, such as 24h", since)
			}
			if most < 1 {
				return fmt.Errorf("--gaps %d: write how many to list at most, such as 40", most)
			}
			o, err := look(c)
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				return (&shown{out: c.OutOrStdout(), bus: e.Bus(), o: o, node: args[0], most: most}).show(c.Context(), int64(since/time.Second))
			})
		},
	}
	settings(c)
	c.Flags().DurationVar(&since, "since", 24*time.Hour, "how long before its last batch to look for gaps")
	c.Flags().IntVar(&most, "gaps", 40, "how many gaps to list; the totals are of all")
	return c
}

// shown prints one node, part by part.
type shown struct {
	out  io.Writer
	bus  bus.Bus
	o    render.Options
	node string
	most int // gaps that are listed
	r    *nodes.Register
}

func (s *shown) show(ctx context.Context, seconds int64) (err error) {
	if s.r, err = nodes.Read(ctx, s.bus); err != nil {
		return err
	}
	last, there, err := nodes.Last(ctx, s.bus, s.node)
	if err != nil {
		return err
	}
	if !there && len(s.r.Statements[s.node]) == 0 {
		return fmt.Errorf("the log knows no node %q: it holds no batch and no key of it; `gpuhour node list` shows those with keys", s.node)
	}
	fmt.Fprintf(s.out, "Node %s\n\n", s.node)
	s.keys()
	if !there {
		fmt.Fprintln(s.out, "\nThe log holds no batch of it.")
		return nil
	}
	if err := s.last(ctx, last); err != nil {
		return err
	}
	v, err := nodes.Look(ctx, s.bus, last, seconds)
	if err != nil {
		return err
	}
	s.topology(v)
	s.gaps(v)
	return nil
}

func (s *shown) table(columns ...render.Column) *render.Table {
	return &render.Table{Width: s.o.Width, Colour: s.o.Colour, Columns: columns}
}

func (s *shown) keys() {
	list := s.r.Statements[s.node]
	if len(list) == 0 {
		fmt.Fprintln(s.out, "It has no key: its batches are taken, signed or not.")
		return
	}
	t := s.table(render.Column{Head: "Fact", Align: render.Right}, render.Column{Head: "Stated (UTC)"}, render.Column{Head: "What"},
		render.Column{Head: "Key"}, render.Column{Head: "By", Fit: render.Wrap}, render.Column{Head: "Note", Fit: render.Fill})
	for _, x := range list {
		what, key := "enrolled", fact.PublicKey{}
		switch b := x.Body.(type) {
		case *fact.NodeEnrolled:
			key = b.PublicKey
		case *fact.NodeRevoked:
			what, key = "revoked", b.PublicKey
		}
		by, note := saidBy(x.Body)
		t.Row(strconv.FormatUint(x.Seq, 10), stamp(x.Stored), what, key.Fingerprint(), by, note)
	}
	fmt.Fprint(s.out, t.String())
	active := s.r.Active(s.node)
	for _, k := range active {
		fmt.Fprintf(s.out, "in force: %s  %s\n", k.Public.Fingerprint(), k.Public)
	}
	if len(active) == 0 {
		fmt.Fprintln(s.out, "no key is in force: every batch of this node is set aside")
	}
}

func (s *shown) last(ctx context.Context, h nodes.Held) error {
	b := &h.Batch
	verdict := "taken"
	facts, err := s.bus.LastSeq(ctx, bus.Facts)
	if err != nil {
		return err
	}
	if q := s.r.Keys.Judge(b, facts, span.Open); q != nil {
		verdict = "set aside (" + string(q.Reason) + "): " + q.Detail
	}
	signed := "no"
	if k, ok := s.r.Keys.Signer(b); ok {
		signed = "with key " + k.Public.Fingerprint() + ", " + keyState(k)
	} else if len(b.Signature) > 0 {
		signed = "with a key that is not stated of this node, or it was altered"
	}
	fmt.Fprintf(s.out, `
Last batch   run %d sequence %d, boot %s
  speaks for %s of the minute %s
  stored     %s UTC, as message %d
  clock      %s
  devices    %d
  signed     %s
  verdict    by the keys in force now: %s
`, b.Run, b.Seq, orNone(b.Boot), count(b.Spoken.Count(), "second"), b.Minute.Start(), stamp(h.Stored), h.Seq, clockText(b.Clock), len(b.Blocks), signed, verdict)
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func clockText(c usage.ClockEvidence) string {
	switch c.State {
	case usage.ClockSynchronised:
		return fmt.Sprintf("synchronised, offset %v, at most %v off", time.Duration(c.OffsetNanos), time.Duration(c.ErrorBoundNano))
	case usage.ClockFree:
		return "runs by itself: nothing holds it right"
	case usage.ClockScripted:
		return "scripted: seconds come from a recording"
	default:
		return "unknown, which counts as not synchronised"
	}
}

func (s *shown) topology(v *nodes.View) {
	if v.Topology == nil {
		fmt.Fprintln(s.out, "\nDevices: no topology in the time looked at, nor in the first batch of this run.")
		return
	}
	source := v.Topology.Source
	if v.Topology.Driver != "" {
		source += ", driver " + v.Topology.Driver
	}
	fmt.Fprintf(s.out, "\nDevices as of %s, by %s\n", v.Found, orNone(source))
	if !v.Complete {
		fmt.Fprintln(s.out, "(the run's first batch; between then and the time looked at they may have changed)")
	}
	t := s.table(render.Column{Head: "Device", Fit: render.Wrap}, render.Column{Head: "Model", Fit: render.Wrap}, render.Column{Head: "Serial"},
		render.Column{Head: "PCI"}, render.Column{Head: "Slice"}, render.Column{Head: "Memory", Align: render.Right})
	for _, d := range v.Topology.Devices {
		t.Row(d.Name, strings.TrimSpace(d.Vendor+" "+d.Model), orNone(d.Serial), orNone(d.PCI), orNone(d.Profile), bytesText(d.MemoryBytes))
		if d.Parent != "" {
			t.Note("", "a slice of "+d.Parent)
		}
	}
	if len(v.Topology.Devices) == 0 {
		fmt.Fprintln(s.out, "none")
		return
	}
	fmt.Fprint(s.out, t.String())
}

// bytesText is a size in GiB with one digit, or in MiB where that would be 0; nothing known is a dash.
func bytesText(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	default:
		return fmt.Sprintf("%d.%d GiB", n>>30, n%(1<<30)*10>>30)
	}
}

func (s *shown) gaps(v *nodes.View) {
	fmt.Fprintf(s.out, "\nLooked at %s from %s to %s", count(v.Batches, "batch"), v.From, v.To)
	if v.Unreadable > 0 {
		fmt.Fprintf(s.out, "; %s on the node's subject cannot be read (`gpuhour refusals`)", count(v.Unreadable, "message"))
	}
	if v.Unsigned > 0 && len(s.r.Statements[s.node]) > 0 {
		fmt.Fprintf(s.out, "; %d of them not signed", v.Unsigned)
	}
	fmt.Fprintln(s.out)
	if v.Cut {
		fmt.Fprintln(s.out, "There are more up to now: look at less at once with --since.")
	}
	if len(v.Gaps) == 0 {
		fmt.Fprintln(s.out, "No gap is stated in it.")
		return
	}
	totals := map[usage.GapReason]int64{}
	for _, g := range v.Gaps {
		totals[g.Reason] += int64(g.To - g.From)
	}
	var sums []string
	for _, reason := range slices.Sorted(maps.Keys(totals)) {
		sums = append(sums, fmt.Sprintf("%s %s", reason, time.Duration(totals[reason])*time.Second))
	}
	fmt.Fprintf(s.out, "%s without samples, each device and the whole node counted by itself: %s\n", count(len(v.Gaps), "gap"), strings.Join(sums, ", "))
	list := together(v.Gaps)
	t := s.table(render.Column{Head: "From"}, render.Column{Head: "To"}, render.Column{Head: "Seconds", Align: render.Right}, render.Column{Head: "Reason"},
		render.Column{Head: "Device", Fit: render.Fill})
	for _, g := range list[:min(len(list), s.most)] {
		t.Row(g.From.String(), g.To.String(), strconv.FormatInt(int64(g.To-g.From), 10), g.Reason.String(), g.what())
	}
	fmt.Fprint(s.out, t.String())
	if n := len(list) - s.most; n > 0 {
		fmt.Fprintf(s.out, "... and %d older ones; --gaps lists more\n", n)
	}
}

// common is a gap that several devices have at the same time for the same reason.
type common struct {
	usage.Gap
	devices []string
}

func (c *common) what() string {
	switch n := len(c.devices); {
	case c.devices[0] == "":
		return "the whole node"
	case n > 3:
		return fmt.Sprintf("%d devices: %s ... %s", n, c.devices[0], c.devices[n-1])
	default:
		return strings.Join(c.devices, ", ")
	}
}

// together puts gaps of several devices into one, the newest first.
func together(gaps []usage.Gap) (all []*common) {
	at := map[usage.Gap]*common{}
	for _, g := range gaps {
		key := g
		if key.Device != "" {
			key.Device = "any"
		}
		if at[key] == nil {
			at[key] = &common{Gap: g}
			all = append(all, at[key])
		}
		at[key].devices = append(at[key].devices, g.Device)
	}
	for _, c := range all {
		slices.Sort(c.devices)
	}
	slices.SortStableFunc(all, func(a, b *common) int { return int(b.From - a.From) })
	return all
}

// batchName reads NODE/RUN/SEQ; a node's name may hold slashes itself.
func batchName(text string) (node string, run, seq uint64, err error) {
	parts := strings.Split(text, "/")
	if n := len(parts); n >= 3 {
		var runErr, seqErr error
		run, runErr = strconv.ParseUint(parts[n-2], 10, 64)
		seq, seqErr = strconv.ParseUint(parts[n-1], 10, 64)
		if node = strings.Join(parts[:n-2], "/"); errors.Join(runErr, seqErr) == nil && node != "" {
			return node, run, seq, nil
		}
	}
	return "", 0, 0, fmt.Errorf("batch %q: write NODE/RUN/SEQ, such as gpu-07/1772179200/12; `gpuhour node show` names the last one", text)
}
