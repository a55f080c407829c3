package exporter

import (
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// capabilities tells of each metric of a device where it comes from, as far as pages have shown it.
func (e *Endpoint) capabilities(about *usage.Device, all []collector.Capability) []collector.Capability {
	s := e.states[about.Name]
	if s == nil {
		s = &state{}
	}
	add := func(metric, note string, sources ...field) {
		c := collector.Capability{Device: about.Name, Metric: metric, Reason: usage.ReasonNotSupported, Note: note}
		for _, f := range sources {
			if s.had[f] {
				c.Reason = usage.ReasonNotAvailable
			}
		}
		for _, f := range sources {
			if s.via[f] != "" {
				c.Via, c.Reason = s.via[f], usage.ReasonNone
				break
			}
		}
		all = append(all, c)
	}
	order := busySources(s.part)
	add("busy", busyNote(s, about), order[:]...)
	add("memory", "", fieldMemory)
	own := ""
	if s.part {
		own = "power and energy are the whole GPU's, and no slice's"
	}
	add("power", own, fieldPower)
	add("energy", own, fieldEnergy)
	add("throttle", "", fieldThrottle)
	all = append(all, s.xids(about), e.freshness(about, s))
	return all
}

func busyNote(s *state, about *usage.Device) string {
	switch {
	case about.Vendor == string(AMD) && s.part && s.via[fieldCores] == "":
		return "put GPU_GFX_BUSY_INSTANTANEOUS into the exporter's list: the other utilisation is the whole GPU's, and no partition's"
	case about.Vendor == string(NVIDIA) && s.part && s.via[fieldEngine] == "":
		return "put DCGM_FI_PROF_GR_ENGINE_ACTIVE into the exporter's list: a slice has no other utilisation"
	}
	return ""
}

// xids says how the faults of a device are seen.
func (s *state) xids(about *usage.Device) collector.Capability {
	c := collector.Capability{Device: about.Name, Metric: "faults", Reason: usage.ReasonNotSupported}
	var series []string
	for k := range s.memory.counts {
		if !slices.Contains(series, k.series) {
			series = append(series, k.series)
		}
	}
	slices.Sort(series)
	if c.Via = strings.Join(series, " "); c.Via != "" {
		c.Reason = usage.ReasonNone
	}
	if about.Vendor != string(NVIDIA) {
		return c
	}
	switch s.memory.told[usage.FaultXID-1] {
	case 0:
		c.Note = "no XID can be seen: put DCGM_EXP_XID_ERRORS_TOTAL or DCGM_EXP_XID_ERRORS_COUNT into the exporter's list"
	case 3:
		c.Note = "DCGM_FI_DEV_XID_ERRORS holds the last XID for ever: the same XID again is invisible; put DCGM_EXP_XID_ERRORS_TOTAL or DCGM_EXP_XID_ERRORS_COUNT into the exporter's list"
	}
	return c
}

// freshness says what tells that a device's page moves.
func (e *Endpoint) freshness(about *usage.Device, s *state) collector.Capability {
	c := collector.Capability{Device: about.Name, Metric: "freshness"}
	whole := about.Name
	if about.Parent != "" {
		whole = about.Parent
	}
	w := e.witnesses[whole]
	timed := slices.ContainsFunc(s.shown[:], func(s shown) bool { return s.at > 0 })
	switch {
	case timed:
		c.Via = "times of lines"
	case w != nil && w.counts:
		c.Via = "energy counter"
	default:
		c.Reason = usage.ReasonNotSupported
		c.Note = "neither an energy counter nor times of lines: an exporter that shows old values for ever is not noticed"
	}
	return c
}
