package membus_test

import (
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/bustest"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
)

func TestConformance(t *testing.T) {
	bustest.Run(t, func(*testing.T) bus.Bus { return membus.New(time.Now) })
}

func TestStampsWithItsClock(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 5, time.FixedZone("CST", 8*3600))
	b := membus.New(func() time.Time { return now })
	if _, err := b.Publish(t.Context(), bus.Publication{Subject: bus.Tick}); err != nil {
		t.Fatal(err)
	}
	m, err := b.Last(t.Context(), bus.Tick)
	if err != nil || !m.Time.Equal(now) || m.Time.Location() != time.UTC {
		t.Errorf("Last = %v, %v; want time %v in UTC", m.Time, err, now)
	}
}
