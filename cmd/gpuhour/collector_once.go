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

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// Of --once: a first look starts the intervals over which drivers measure, the second one reads them.
const (
	onceInterval = time.Second
	oncePatience = 5 * time.Second // with a driver that does not answer
)

// seen is what --once shows of one unit.
type seen struct {
	unit     collector.Unit
	readings []collector.Reading
	err      error
}

// errSilent is a unit that did not answer in time.
var errSilent = errors.New("it does not answer")

// lookOnce samples every unit of the hardware twice.
func lookOnce(ctx context.Context, h collector.Hardware) ([]seen, error) {
	units, err := h.Scan()
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	answers := make([]chan seen, len(units))
	for i, u := range units {
		answers[i] = make(chan seen, 1)
		go func() { // one that hangs in the driver is left to the process's end
			if _, err := u.Sample(nil); err != nil && !errors.Is(err, collector.ErrChanged) {
				answers[i] <- seen{u, nil, err}
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(onceInterval):
			}
			readings, err := u.Sample(nil)
			answers[i] <- seen{u, readings, err}
		}()
	}
	deadline := time.After(oncePatience)
	all := make([]seen, len(units))
	for i, u := range units {
		select {
		case all[i] = <-answers[i]:
		case <-deadline:
			all[i] = seen{u, nil, errSilent}
			deadline = closed()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, nil
}

// closed is a channel that always answers.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// onceTable lays out what was seen, then what could not be read and why.
func onceTable(topology usage.Topology, all []seen, o render.Options) string {
	var out strings.Builder
	if len(topology.Devices) == 0 {
		return "no devices\n"
	}
	info := map[string]usage.Device{}
	for _, d := range topology.Devices {
		info[d.Name] = d
	}
	t := render.Table{Width: o.Width, Colour: o.Colour, Columns: []render.Column{
		{Head: "Device", Fit: render.Wrap},
		{Head: "Model", Fit: render.Wrap},
		{Head: "PCI"},
		{Head: "Busy", Align: render.Right},
		{Head: "Memory", Align: render.Right},
		{Head: "Power", Align: render.Right},
		{Head: "Energy", Align: render.Right},
		{Head: "Throttle", Fit: render.Wrap},
	}}
	var missing []string
	for _, s := range all {
		if s.err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", s.unit.Name(), s.err))
		}
		readings := slices.Clone(s.readings)
		slices.SortStableFunc(readings, func(a, b collector.Reading) int { // a device, then its slices
			return cmp.Or(strings.Compare(wholeDevice(info, a.Device), wholeDevice(info, b.Device)), strings.Compare(info[a.Device].Parent, info[b.Device].Parent), strings.Compare(a.Device, b.Device))
		})
		for _, r := range readings {
			onceRow(&t, info[r.Device], &r)
			for _, f := range r.Faults {
				t.Note("fault", faultText(f))
			}
		}
		missing = append(missing, notRead(s)...)
	}
	out.WriteString(t.String())
	if len(missing) > 0 {
		out.WriteString("\nnot read\n")
		for _, m := range missing {
			out.WriteString("  " + m + "\n")
		}
	}
	return out.String()
}

// wholeDevice is the device that a slice is cut from, or the device itself.
func wholeDevice(info map[string]usage.Device, name string) string {
	return cmp.Or(info[name].Parent, name)
}

func onceRow(t *render.Table, d usage.Device, r *collector.Reading) {
	name, model := r.Device, d.Model
	if d.Parent != "" {
		name, model = "└ "+name, cmp.Or(d.Profile, model)
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
		name, model, strings.TrimPrefix(d.PCI, "00000000:"),
		show(r.Busy, func(v int64) string { return fmt.Sprintf("%d %%", v) }),
		memory,
		show(r.Power, func(v int64) string { return fmt.Sprintf("%d.%d W", v/1000, v%1000/100) }),
		show(r.Energy, func(v int64) string { return fmt.Sprintf("%d.%02d MJ", v/1e9, v%1e9/1e7) }),
		show(r.Throttle, throttleText),
	)
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

// notRead lists the metrics that have no source or did not answer, one line for each metric and reason.
func notRead(s seen) (lines []string) {
	for _, c := range s.unit.Capabilities() {
		if c.Reason == usage.ReasonNone {
			continue
		}
		line := fmt.Sprintf("%s: %s: %s", c.Device, c.Metric, reasonText(c.Reason))
		if c.Note != "" {
			line += "; " + c.Note
		}
		lines = append(lines, line)
	}
	return lines
}

func reasonText(r usage.Reason) string {
	return strings.ReplaceAll(usage.GapReason(r).String(), "_", " ")
}
