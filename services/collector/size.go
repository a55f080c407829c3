package collector

import "github.com/gpuhour/gpuhour/core/usage"

// maxContent bounds topology, gaps and blocks of a batch from above, so that the log takes it as one message: bus.MaxMessageBytes is
// 47 kB more, and the rest of a batch less than 2. It also holds usage.MaxGaps, because a gap counts for more than part bytes.
const (
	maxContent = 1_000_000
	part       = 64 // more than the tags and numbers of a gap, a block or a device take in the log's form
)

// Fits tells whether a batch can carry a topology. Each device whose texts have less than 900 bytes together does fit, even where
// there are usage.MaxBlocks of them.
func Fits(t *usage.Topology) bool { return topologyBytes(t) <= maxContent }

func topologyBytes(t *usage.Topology) int {
	n := part + len(t.Source) + len(t.Driver)
	for i := range t.Devices {
		d := &t.Devices[i]
		n += part + len(d.Name) + len(d.Parent) + len(d.Vendor) + len(d.Model) + len(d.Serial) + len(d.PCI) + len(d.Profile)
	}
	return n
}

func gapBytes(g *usage.Gap) int { return part + len(g.Device) }

// blockBytes is for a device's block with its gaps: they stay together.
func blockBytes(block []byte, gaps []usage.Gap) int {
	n := part + len(block)
	for i := range gaps {
		n += gapBytes(&gaps[i])
	}
	return n
}
