package usage

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Topology is what a collector found on its node: it goes with the first batch of a run and with each batch at whose end it is
// another one. It proves nothing about a lease; what a lease holds is stated by facts.
type Topology struct {
	Source  string   // what was asked, such as "nvml 13.2"
	Driver  string   // the driver's version, or nothing
	Devices []Device // by rising name
}

// Device is one device, or slice of one, as its node describes it. Everything but Name may be empty: unknown.
type Device struct {
	Name        string // the name that blocks and leases use: the UUID
	Parent      string // of a slice: the device that it is cut from
	Vendor      string // nvidia, amd, ascend
	Model       string
	Serial      string
	PCI         string // bus address, domain:bus:device.function
	Profile     string // of a slice: its size, such as 1g.10gb
	MemoryBytes int64
}

// validate: names rise, and all text is short and plain.
func (t *Topology) validate() error {
	if t == nil {
		return nil
	}
	if len(t.Devices) > MaxBlocks {
		return fmt.Errorf("the topology has %d devices; at most %d", len(t.Devices), MaxBlocks)
	}
	if !plainText(t.Source) || !plainText(t.Driver) {
		return fmt.Errorf("source %q or driver %q of the topology is too long or not plain text", t.Source, t.Driver)
	}
	last := ""
	for _, d := range t.Devices {
		if d.Name <= last {
			return fmt.Errorf("device %q of the topology does not come after %q", d.Name, last)
		}
		last = d.Name
		for _, s := range [...]string{d.Name, d.Parent, d.Vendor, d.Model, d.Serial, d.PCI, d.Profile} {
			if !plainText(s) {
				return fmt.Errorf("device %q of the topology: %q is too long or not plain text", d.Name, s)
			}
		}
		if d.MemoryBytes < 0 {
			return fmt.Errorf("device %q of the topology has %d bytes of memory", d.Name, d.MemoryBytes)
		}
	}
	return nil
}

func plainText(s string) bool {
	return len(s) <= MaxNameBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
