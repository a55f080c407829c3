package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// Of --once: a first look starts the intervals over which drivers measure, the second one reads them.
const (
	onceInterval = time.Second
	oncePatience = 5 * time.Second // with a driver that does not answer
	openPatience = time.Minute     // with one that is loaded first
)

// seen is what --once shows of one unit.
type seen struct {
	unit     collector.Unit
	readings []collector.Reading
	err      error
}

// errSilent is a unit that did not answer in time.
var errSilent = errors.New("it does not answer")

// patiently waits for a call that may hang in the driver, as long as it may take and the context lasts; then the call is left to the
// process's end.
func patiently[T any](ctx context.Context, d time.Duration, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	came := make(chan answer, 1)
	go func() {
		value, err := call()
		came <- answer{value, err}
	}()
	var none T
	select {
	case a := <-came:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(d):
		return none, fmt.Errorf("%w within %s", errSilent, d)
	}
}

// lookOnce samples every unit of the hardware twice.
func lookOnce(ctx context.Context, h collector.Hardware) ([]seen, error) {
	units, err := patiently(ctx, openPatience, h.Scan)
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	answers := make([]chan seen, len(units))
	for i, u := range units {
		answers[i] = make(chan seen, 1)
		go func() { // one that hangs in the driver is left to the process's end
			first, err := u.Sample(nil)
			if err != nil && !errors.Is(err, collector.ErrChanged) && !errors.Is(err, collector.ErrPartly) {
				answers[i] <- seen{u, first, err}
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(onceInterval):
			}
			readings, err := u.Sample(nil)
			keepFirst(readings, first)
			answers[i] <- seen{u, readings, err}
		}()
	}
	patience, cancel := context.WithTimeout(ctx, oncePatience)
	defer cancel()
	all := make([]seen, len(units))
	for i, u := range units {
		select {
		case all[i] = <-answers[i]:
			continue
		case <-patience.Done():
		}
		select {
		case all[i] = <-answers[i]: // the others may have answered long ago
		default:
			all[i] = seen{u, nil, fmt.Errorf("no answer in %v", oncePatience)}
		}
	}
	return all, ctx.Err()
}

// keepFirst adds what an earlier look alone has: faults, which hardware tells once, and values of a page that has not been refreshed
// since, as the unit's error then says.
func keepFirst(readings, earlier []collector.Reading) {
	for i := range readings {
		r := &readings[i]
		for _, e := range earlier {
			if e.Device != r.Device {
				continue
			}
			r.Faults = slices.Concat(e.Faults, r.Faults)
			before := []collector.Metric{e.Busy, e.Memory, e.Power, e.Energy, e.Throttle}
			for k, m := range []*collector.Metric{&r.Busy, &r.Memory, &r.Power, &r.Energy, &r.Throttle} {
				if m.Reason == usage.ReasonStale {
					*m = before[k]
				}
			}
		}
	}
}

// onceTable lays out what was seen, then what could not be read and why.
func onceTable(topology usage.Topology, all []seen, o render.Options) string {
	if len(topology.Devices) == 0 {
		return "no devices\n"
	}
	info := map[string]usage.Device{}
	for _, d := range topology.Devices {
		info[d.Name] = d
	}
	t := render.Table{Width: o.Width, Colour: o.Colour, Columns: []render.Column{
		{Head: "Device", Fit: render.Wrap},
		{Head: "PCI"},
		{Head: "Busy", Align: render.Right},
		{Head: "Memory", Align: render.Right},
		{Head: "Power", Align: render.Right},
		{Head: "Energy", Align: render.Right},
		{Head: "Throttle", Fit: render.Wrap},
	}}
	var missing lacks
	nothing := ""
	for _, s := range all {
		readings := s.all()
		if len(readings) == 0 && s.err != nil {
			nothing += fmt.Sprintf("\n%s shows nothing: %v\n", s.unit.Name(), s.err)
		}
		slices.SortStableFunc(readings, func(a, b collector.Reading) int { // a device, then its slices
			return cmp.Or(strings.Compare(wholeDevice(info, a.Device), wholeDevice(info, b.Device)), strings.Compare(info[a.Device].Parent, info[b.Device].Parent), strings.Compare(a.Device, b.Device))
		})
		capabilities := s.unit.Capabilities()
		for i := range readings {
			r := &readings[i]
			d := info[r.Device]
			onceRow(&t, d, r)
			for _, c := range capabilities {
				if d.Parent != "" && c.Device == r.Device && c.Reason == usage.ReasonNone && c.Note != "" {
					t.Note("of", c.Note)
				}
			}
			if s.err != nil && i == len(readings)-1 {
				t.Note("error", s.err.Error())
			}
		}
		if len(readings) > 0 {
			missing.add(capabilities, info)
		}
	}
	return t.String() + nothing + missing.text(topology.Devices, o)
}

// all are the unit's readings; of one that did not answer, that nothing is known of its devices.
func (s *seen) all() []collector.Reading {
	if len(s.readings) > 0 {
		return slices.Clone(s.readings)
	}
	var out []collector.Reading
	for _, device := range s.unit.Devices() {
		none := collector.Unknown(usage.ReasonTimeout)
		out = append(out, collector.Reading{Device: device, Busy: none, Memory: none, Power: none, Energy: none, Throttle: none})
	}
	return out
}

// wholeDevice is the device that a slice is cut from, or the device itself.
func wholeDevice(info map[string]usage.Device, name string) string {
	return cmp.Or(info[name].Parent, name)
}

func onceRow(t *render.Table, d usage.Device, r *collector.Reading) {
	what, pci := cmp.Or(d.Model, "unknown model"), strings.TrimPrefix(d.PCI, "00000000:")
	if d.Parent != "" {
		what, pci = "└ "+cmp.Or(d.Profile, "slice"), ""
	}
	show := func(m collector.Metric, text func(int64) string) string {
		if !m.Read() {
			return "–"
		}
		return text(m.Value)
	}
	memory := show(r.Memory, gib)
	if d.MemoryBytes > 0 && r.Memory.Read() {
		memory += " / " + gib(d.MemoryBytes)
	}
	t.Row(
		what, pci,
		show(r.Busy, func(v int64) string { return fmt.Sprintf("%d %%", v) }),
		memory,
		show(r.Power, func(v int64) string { return fmt.Sprintf("%d.%d W", v/1000, v%1000/100) }),
		show(r.Energy, func(v int64) string { return fmt.Sprintf("%d.%02d MJ", v/1e9, v%1e9/1e7) }),
		show(r.Throttle, throttleText),
	)
	t.Note("name", r.Device)
	for _, f := range r.Faults {
		t.Note("fault", faultText(f))
	}
}

// gib is bytes in GiB with one decimal, cut off.
func gib(v int64) string { return fmt.Sprintf("%d.%d GiB", v>>30, v%(1<<30)*10>>30) }

// throttleText names the bits of NVML's clock event reasons (nvml.h, nvmlClocksEventReasons).
func throttleText(v int64) string {
	names := [...]string{"idle", "application clocks", "power cap", "hardware slowdown", "sync boost", "thermal (software)", "thermal (hardware)", "power brake", "display"}
	if v == 0 {
		return "none"
	}
	var all []string
	for rest := uint64(v); rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		if bit < len(names) {
			all = append(all, names[bit])
		} else {
			all = append(all, fmt.Sprintf("bit %d", bit))
		}
	}
	return strings.Join(all, ", ")
}

func faultText(f usage.Fault) string {
	switch f.Kind {
	case usage.FaultXID:
		return fmt.Sprintf("XID %d", f.Code)
	case usage.FaultECC:
		return fmt.Sprintf("%d uncorrected memory errors", f.Code)
	case usage.FaultLost:
		return fmt.Sprintf("the device is gone (%d)", f.Code)
	case usage.FaultRecovery:
		return fmt.Sprintf("the driver asks for recovery action %d", f.Code)
	case usage.FaultVendor:
		return fmt.Sprintf("error code %d of the vendor", f.Code)
	default:
		return fmt.Sprintf("kind %d, code %d", f.Kind, f.Code)
	}
}

// lack is why metrics of some devices cannot be read.
type lack struct {
	metrics, devices []string
	why              string
}

type lacks []*lack

// add takes what a unit cannot read: one lack for all metrics of the same devices that lack it for the same reason. What
// is to be known of one slice alone stands with it.
func (all *lacks) add(capabilities []collector.Capability, info map[string]usage.Device) {
	for _, c := range capabilities {
		if c.Reason == usage.ReasonNone && (c.Note == "" || info[c.Device].Parent != "") {
			continue
		}
		why := c.Note
		if c.Reason != usage.ReasonNone {
			why = strings.TrimSuffix(reasonText(c.Reason)+"; "+c.Note, "; ")
		}
		i := slices.IndexFunc(*all, func(l *lack) bool { return l.why == why && l.metrics[0] == c.Metric })
		if i < 0 {
			*all = append(*all, &lack{[]string{c.Metric}, nil, why})
			i = len(*all) - 1
		}
		(*all)[i].devices = append((*all)[i].devices, c.Device)
	}
}

// text lists them.
func (all lacks) text(devices []usage.Device, o render.Options) string {
	var merged lacks
	for _, l := range all {
		i := slices.IndexFunc(merged, func(m *lack) bool { return m.why == l.why && slices.Equal(m.devices, l.devices) })
		if i < 0 {
			merged = append(merged, l)
			continue
		}
		merged[i].metrics = append(merged[i].metrics, l.metrics...)
	}
	if len(merged) == 0 {
		return ""
	}
	t := render.Table{Width: o.Width, Colour: o.Colour, Columns: []render.Column{
		{Head: "Not read", Fit: render.Wrap}, {Head: "Why, or what to know of it", Fit: render.Fill},
	}}
	for _, l := range merged {
		t.Row(strings.ReplaceAll(strings.Join(l.metrics, ", "), "_", " "), l.why)
		for _, who := range l.who(devices) {
			t.Note("", who)
		}
	}
	return "\n" + t.String()
}

// maxNamed is how many devices are named one by one.
const maxNamed = 4

// who are the devices that lack something, in few words.
func (l *lack) who(devices []usage.Device) []string {
	var whole, cut []string
	for _, d := range devices {
		if d.Parent == "" {
			whole = append(whole, d.Name)
		} else {
			cut = append(cut, d.Name)
		}
	}
	these := slices.Sorted(slices.Values(l.devices))
	switch {
	case len(these) == len(devices):
		return []string{"all devices"}
	case slices.Equal(these, cut):
		return []string{"all slices"}
	case slices.Equal(these, whole):
		return []string{"all devices but their slices"}
	case len(these) > maxNamed:
		return append(these[:maxNamed-1:maxNamed-1], fmt.Sprintf("and %d more", len(these)-maxNamed+1))
	default:
		return these
	}
}

func reasonText(r usage.Reason) string {
	return strings.ReplaceAll(usage.GapReason(r).String(), "_", " ")
}

// showOnce prints what is seen now.
func showOnce(c *cobra.Command, open func() (collector.Hardware, error)) error {
	h, err := patiently(c.Context(), openPatience, open)
	if err != nil {
		return fmt.Errorf("open the hardware: %w", err)
	}
	all, err := lookOnce(c.Context(), h)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	o, err := look(c)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	topology := h.Topology()
	fmt.Fprintf(c.OutOrStdout(), "%s, driver %s; %s; clock %s\n\n", orNone(topology.Source), cmp.Or(topology.Driver, "unknown"),
		time.Now().UTC().Format(time.DateTime+" UTC"), clockText(live.Machine{}.Evidence()))
	fmt.Fprint(c.OutOrStdout(), onceTable(topology, all, o))
	return h.Close()
}
