package exporter

import (
	"errors"
	"fmt"
	"strings"
)

// Vendor is whose exporter speaks.
type Vendor string

// Vendors.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Ascend Vendor = "ascend"
)

// Program is the exporter's name.
func (v Vendor) Program() string {
	switch v {
	case NVIDIA:
		return "dcgm-exporter"
	case AMD:
		return "device-metrics-exporter"
	case Ascend:
		return "npu-exporter"
	default:
		return "unknown exporter"
	}
}

// Factors to our units.
const (
	mebibyte = 1 << 20
	kibibyte = 1 << 10
	megabyte = 1e6
	watt     = 1000  // milliwatt
	microJ   = 0.001 // millijoule
)

var (
	errNoDevice = errors.New("this line is of no device") // and need not be
	errNameless = errors.New("the line names no device")
)

// mappings are the exporters that are known.
type mappings []mapping

func allMappings() mappings { return mappings{dcgm(), amd(), ascend()} }

// of gives a vendor's mapping; without a vendor that of the one with most lines, or none.
func (ms mappings) of(vendor Vendor, samples []Sample) mapping {
	var best mapping
	most := 0
	for _, m := range ms {
		if m.vendor == vendor {
			return m
		}
		n := 0
		for i := range samples {
			series := m.base(samples[i].Name)
			_, valued := m.rules[series]
			_, counted := m.counters[series]
			if valued || counted {
				n++
			}
		}
		if n > most {
			best, most = m, n
		}
	}
	return best
}

// ParseVendor reads a vendor's name; nothing is the empty vendor, for which a page decides.
func ParseVendor(text string) (Vendor, error) {
	switch v := Vendor(strings.ToLower(text)); v {
	case NVIDIA, AMD, Ascend, "":
		return v, nil
	default:
		return "", fmt.Errorf("vendor %q is unknown; write nvidia, amd or ascend, or leave it out", text)
	}
}
