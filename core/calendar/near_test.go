package calendar

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
)

// What is kept of a zone says what its rules say, and a clock shows what a time.Time shows.
func TestNearYearsAreExact(t *testing.T) {
	names := zoneNames(t)
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t, names)
		at := drawInstant(t, z)
		if edge := rapid.SampledFrom([]span.Second{0, nearFrom, nearTo}).Draw(t, "edge"); edge > 0 {
			at = edge + span.Second(rapid.Int64Range(-20_000_000, 20_000_000).Draw(t, "off the edge"))
		}
		got, want := z.stretch(at), Zone{location: z.location}.stretch(at)
		if got != want {
			t.Fatalf("%s: kept %v, looked up %v", at, got, want)
		}
		clock, local := z.Clock(at), time.Unix(int64(at), 0).In(z.location)
		second := local.Hour()*3600 + local.Minute()*60 + local.Second()
		if clock.Date != dateOf(local) || clock.Second != int64(second) || clock.Until != want.to {
			t.Fatalf("%s: the clock shows %+v, not %s", at, clock, local)
		}
	})
}
