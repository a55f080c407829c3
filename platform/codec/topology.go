package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

func topologyMessage(t *usage.Topology) *logv1.Topology {
	if t == nil {
		return nil
	}
	m := &logv1.Topology{Source: t.Source, Driver: t.Driver}
	for _, d := range t.Devices {
		m.Devices = append(m.Devices, &logv1.TopologyDevice{
			Name: d.Name, Parent: d.Parent, Vendor: d.Vendor, Model: d.Model, Serial: d.Serial, Pci: d.PCI, Profile: d.Profile, MemoryBytes: d.MemoryBytes,
		})
	}
	return m
}

// parseTopology reads what is seldom there with the generated code.
func parseTopology(raw []byte, b *usage.Batch) error {
	if b.Topology != nil {
		return errors.New("the topology is there twice")
	}
	var m logv1.Topology
	if err := proto.Unmarshal(raw, &m); err != nil {
		return errWire
	}
	if name := unknownIn(m.ProtoReflect()); name != "" {
		return fmt.Errorf("a field of %s is unknown", name)
	}
	b.Topology = &usage.Topology{Source: m.GetSource(), Driver: m.GetDriver()}
	for _, d := range m.GetDevices() {
		b.Topology.Devices = append(b.Topology.Devices, usage.Device{
			Name: d.GetName(), Parent: d.GetParent(), Vendor: d.GetVendor(), Model: d.GetModel(), Serial: d.GetSerial(), PCI: d.GetPci(),
			Profile: d.GetProfile(), MemoryBytes: d.GetMemoryBytes(),
		})
	}
	return nil
}

func parseGap(raw []byte, b *usage.Batch) error {
	var m logv1.UsageGap
	if err := proto.Unmarshal(raw, &m); err != nil {
		return errWire
	}
	if name := unknownIn(m.ProtoReflect()); name != "" {
		return fmt.Errorf("a field of %s is unknown", name)
	}
	reason := usage.GapReason(m.GetReason())
	if logv1.GapReason(reason) != m.GetReason() {
		return fmt.Errorf("gap reason %d is unknown", m.GetReason())
	}
	b.Gaps = append(b.Gaps, usage.Gap{
		Device: m.GetDevice(), From: span.Second(m.GetFromUnixSeconds()), To: span.Second(m.GetToUnixSeconds()), Reason: reason,
	})
	return nil
}
