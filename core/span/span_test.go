package span

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseFloorsAndBounds(t *testing.T) {
	for text, want := range map[string]Second{
		"2026-07-20T17:42:48Z":      1784569368, // case B131: the zone of the machine plays no part
		"2026-07-21T01:42:48+08:00": 1784569368,
		"2026-07-20T17:42:48.999Z":  1784569368, // floored
		"9999-12-31T23:59:59Z":      latest,     // case B133: a far-future sentinel does not wrap
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2026-07-20", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z", "1784569368"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d; want an error", text, got)
		}
	}
}

func TestLeapSecondDayHas86400Seconds(t *testing.T) { // case B129
	from, _ := Parse("2016-12-31T23:59:58Z")
	to, _ := Parse("2017-01-01T00:00:02Z")
	if got := (Span{from, to}).Seconds(); got != 4 {
		t.Errorf("seconds over a leap second = %d; want 4", got)
	}
}

func TestMaskOfEqualsSecondBySecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Minute(rapid.Int64Range(0, 1<<28).Draw(t, "minute"))
		from := m.Start() + Second(rapid.Int64Range(-90, 90).Draw(t, "from"))
		s := Span{from, from + Second(rapid.Int64Range(-5, 150).Draw(t, "length"))}
		mask := MaskOf(m, s)
		for i := range SecondsPerMinute {
			if mask.Has(i) != s.Contains(m.Start()+Second(i)) {
				t.Fatalf("second %d of %v in %v: mask %v", i, m, s, mask.Has(i))
			}
		}
		n := 0
		mask.Each(func(int) { n++ })
		if n != mask.Count() || !mask.Valid() {
			t.Fatalf("Each visited %d of %d seconds, valid %v", n, mask.Count(), mask.Valid())
		}
	})
}

func TestOpenSpanHoldsAllThatFollows(t *testing.T) {
	s := Span{100, Open}
	if !s.Contains(latest) || s.Contains(99) || MaskOf(1, s) != MaskOf(1, Span{100, 120}) {
		t.Errorf("open span %v does not hold exactly what follows 100", s)
	}
}
