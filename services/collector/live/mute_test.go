package live_test

import (
	"testing"
	"testing/synctest"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
)

// mute is hardware of two units that both claim the device a; the first one says nothing of its slice.
type mute struct{ name string }

func (m *mute) Name() string                         { return m.name }
func (m *mute) Capabilities() []collector.Capability { return nil }
func (m *mute) Close() error                         { return nil }
func (m *mute) Topology() usage.Topology {
	return usage.Topology{Source: "mute", Devices: []usage.Device{{Name: "a"}, {Name: "a/1", Parent: "a"}}}
}

func (m *mute) Scan() ([]collector.Unit, error) { return []collector.Unit{m, &mute{"another"}}, nil }

func (m *mute) Devices() []string {
	if m.name == "another" {
		return []string{"a"}
	}
	return []string{"a", "a/1"}
}

func (m *mute) Sample(into []collector.Reading) ([]collector.Reading, error) {
	return append(into, livetest.Reading("a", int64(10*len(m.name)))), nil
}

// TestADeviceThatItsUnitDoesNotSpeakOfIsLost, and one of which two units speak counts once.
func TestADeviceThatItsUnitDoesNotSpeakOfIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := live.NewSampler(live.SamplerConfig{Open: func() (collector.Hardware, error) { return &mute{"first"}, nil }})
		readings, err := s.Sample(0, nil)
		check(t, err)
		equal(t, 2, len(readings))
		equal(t, livetest.Reading("a", 50), readings[0])
		equal(t, "a/1", readings[1].Device)
		equal(t, collector.Unknown(usage.ReasonLost), readings[1].Memory)
		equal(t, uint64(1), s.Stats().Doubles)
		_, err = closed(t, s)
		check(t, err)
	})
}
