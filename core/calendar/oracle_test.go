package calendar

import (
	"archive/zip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
)

func zoneNames(t testing.TB) []string {
	t.Helper()
	archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	return names
}

func TestEveryZoneLoads(t *testing.T) {
	names := zoneNames(t)
	if len(names) < 500 {
		t.Fatalf("only %d zones", len(names))
	}
	for _, name := range names {
		if z, err := LoadZone(name); err != nil || z.String() != name {
			t.Errorf("%s: %v, %v", name, z, err)
		}
	}
}

func drawZone(t *rapid.T, names []string) Zone {
	odd := []string{
		"Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns", "Pacific/Kwajalein",
		"America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Antarctica/Troll", "Europe/Dublin", "Africa/Monrovia",
	}
	pick := rapid.OneOf(rapid.SampledFrom(odd), rapid.SampledFrom(names)).Draw(t, "zone")
	z, err := LoadZone(pick)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// drawInstant prefers the neighbourhood of a clock change.
func drawInstant(t *rapid.T, z Zone) span.Second {
	s := span.Second(rapid.Int64Range(0, 2_500_000_000).Draw(t, "instant"))
	if _, end := time.Unix(int64(s), 0).In(z.location).ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "near a change") {
		s = span.Second(end.Unix() + rapid.Int64Range(-100_000, 100_000).Draw(t, "off"))
	}
	return s
}

// The definition, read literally: walk the clock until it has reached the midnight. Steps of 30 s suffice since no
// offset after 1970 is finer.
func TestStartOfDayIsTheFirstInstantPastMidnight(t *testing.T) {
	names := zoneNames(t)
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t, names)
		d := z.DateOf(drawInstant(t, z)).AddDays(rapid.IntRange(-1, 1).Draw(t, "days"))
		midnight := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix()
		want := midnight - 2*secondsPerDay
		for ; ; want += 30 {
			if _, offset := time.Unix(want, 0).In(z.location).Zone(); want+int64(offset) >= midnight {
				break
			}
		}
		got := z.StartOfDay(d)
		if got != span.Second(want) {
			t.Fatalf("%s in %s begins at %s, want %s", d, z, got, span.Second(want))
		}
		if z.StartOfDay(d.AddDays(1)) > got && z.DateOf(got) != d {
			t.Fatalf("%s in %s is %s", got, z, z.DateOf(got))
		}
	})
}

// Periods tile the term: no gap, no overlap, and any instant of one finds that one.
func TestPeriodsTileTime(t *testing.T) {
	names := zoneNames(t)
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t, names)
		cycle := Cycle(rapid.IntRange(int(Hourly), int(Yearly)).Draw(t, "cycle"))
		anchor := rapid.IntRange(1, cycle.MaxAnchor()).Draw(t, "anchor")
		begin := drawInstant(t, z)
		length := []int64{0, 100_000, 900_000, 1_800_000, 5_000_000, 20_000_000, 70_000_000, 200_000_000}[cycle]
		term := span.Span{From: begin, To: begin + span.Second(rapid.Int64Range(1, length).Draw(t, "length"))}
		for next := term.From; next < term.To; {
			p := PeriodAt(cycle, anchor, term, z, next)
			if p.Span.From != next || p.Span.Empty() || p.Full.Intersect(term) != p.Span {
				t.Fatalf("after %s comes %s of %s", next, p.Span, p.Full)
			}
			inside := p.Span.From + span.Second(rapid.Int64Range(0, p.Span.Seconds()-1).Draw(t, "inside"))
			if again := PeriodAt(cycle, anchor, term, z, inside); again != p {
				t.Fatalf("%s is in %s, not %s", inside, again.Span, p.Span)
			}
			next = p.Span.To
		}
	})
}
