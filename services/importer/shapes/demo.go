package shapes

import (
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

// The demo's window: 48 hours of the openb trace that begin at its day 147, 2026-05-28T00:00:00+08:00 with the demo's
// start date, on the first 25 nodes with GPUs (68 devices), which is where first-fit put everything that ran then. 913
// leases run in it, more than in any other two days.
const (
	DemoWindowFrom    span.Second = openb.DemoStart + 147*86400
	DemoWindowTo      span.Second = DemoWindowFrom + 2*86400
	DemoWindowNodes               = 25
	DemoWindowDevices             = 68
	DemoWindowLeases              = 913
	DemoWindowSamples             = 10_678_321 // device-seconds that are seen
)

// DemoPlan is the demo's window over an imported openb trace.
func DemoPlan(t *openb.Trace, im *openb.Import) Plan {
	p := Plan{Window: span.Span{From: DemoWindowFrom, To: DemoWindowTo}, Facts: im.Facts}
	for _, n := range t.Nodes {
		if n.GPUs == 0 || len(p.Nodes) == DemoWindowNodes {
			continue
		}
		node := Node{Name: n.Name}
		for i := range int(n.GPUs) {
			node.Devices = append(node.Devices, n.Device(i))
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p
}
