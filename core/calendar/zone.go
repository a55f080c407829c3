package calendar

import (
	"archive/zip"
	_ "embed" // the tz database travels inside the binary, so that no host's copy decides a bill
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// TZVersion is the release of the embedded tz database (zoneinfo.zip, as distributed with Go). A close records it,
// because another release may move a period.
const TZVersion = "2025c"

//go:embed zoneinfo.zip
var zoneinfo string

// zones is the database's directory, read once: reading it costs more than parsing a contract.
//
//tidy:const
var zones = directory()

func directory() []*zip.File {
	archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	must.True(err == nil, "the embedded tz database is unreadable: %v", err)
	return archive.File
}

// Zone is an IANA time zone of the embedded database. The zero value is no zone.
type Zone struct {
	location *time.Location
	near     *[]stretch // around the years that are billed, without a gap; other instants are looked up
}

// LoadZone finds a zone by its IANA name, in exactly the database's letters. "Local" is no zone: it would differ from
// host to host.
func LoadZone(name string) (Zone, error) {
	for _, f := range zones {
		if f.Name == name && !strings.HasSuffix(name, "/") {
			return readZone(f)
		}
	}
	return Zone{}, unknownZone(name, zones)
}

func readZone(f *zip.File) (Zone, error) {
	content, err := f.Open()
	must.True(err == nil, "the embedded zone %s is unreadable: %v", f.Name, err)
	defer content.Close()
	data, err := io.ReadAll(content)
	must.True(err == nil, "the embedded zone %s is unreadable: %v", f.Name, err)
	location, err := time.LoadLocationFromTZData(f.Name, data)
	if err != nil {
		return Zone{}, fmt.Errorf("load zone %s: %w", f.Name, err)
	}
	z := Zone{location: location}
	near := z.stretches(nearFrom, nearTo)
	z.near = &near
	return z, nil
}

// The years 2020 to 2040: looking an instant up in a zone's rules costs more than classifying it.
const (
	nearFrom span.Second = 1577836800
	nearTo   span.Second = 2240611200
)

// stretches tile time from the one around from to the one around to.
func (z Zone) stretches(from, to span.Second) []stretch {
	out := []stretch{z.stretch(from)}
	for last := &out[0]; last.to < to; last = &out[len(out)-1] {
		if next := z.bounds(last.to); next.offset == last.offset {
			last.to = next.to
		} else {
			out = append(out, next)
		}
	}
	last := len(out) - 1
	out[last] = z.grown(out[last])
	return out
}

// unknownZone suggests the zone meant: other letters, a city without its area, or a near miss. It suggests none by letters where a
// wrong one would look right: Etc/GMT+8 lies eight hours behind UTC, Beirut is not Beijing, and of CST there are three.
func unknownZone(name string, files []*zip.File) error {
	sign := strings.IndexAny(name, "+-")
	switch {
	case strings.EqualFold(name, "Beijing"), strings.EqualFold(name, "Asia/Beijing"):
		return fmt.Errorf("unknown timezone %q; did you mean Asia/Shanghai?", name)
	case sign >= 0 && sign < len(name)-1 && strings.Trim(name[sign+1:], "0123456789:") == "":
		return fmt.Errorf("unknown timezone %.60q: an offset is no place, whose clock may change; write an IANA name such as Asia/Shanghai", name)
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		_, city, _ := strings.Cut(f.Name, "/")
		if name != "" && (strings.EqualFold(name, f.Name) || strings.EqualFold(name, city)) {
			return fmt.Errorf("unknown timezone %q; did you mean %s?", name, f.Name)
		}
		names = append(names, f.Name)
	}
	if near, ok := nearest.Of(name, names); ok && len(name) > len("CST") {
		return fmt.Errorf("unknown timezone %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("unknown timezone %.60q; write an IANA name such as Asia/Shanghai", name)
}

// String is the IANA name.
func (z Zone) String() string {
	if z.location == nil {
		return "no zone"
	}
	return z.location.String()
}

// Equal tells whether both are the same IANA name.
func (z Zone) Equal(o Zone) bool { return z.String() == o.String() }

// StartOfDay is the first instant of a local date.
func (z Zone) StartOfDay(d Date) span.Second { return z.reaches(d.utc().Unix()) }

// Later is the instant at which the local clock of a later date shows what it shows at t: so many months on (the last day of a
// shorter month), then days. Of a time that comes twice it is the first; for one that is skipped, the end of the gap.
func (z Zone) Later(t span.Second, months, days int) span.Second {
	clock := z.Clock(t)
	d := (clock.Date.month() + month(months)).day(clock.Date.Day).AddDays(days)
	return z.reaches(d.utc().Unix() + clock.Second)
}

// reaches is the first instant at which the local clock shows a time or, where it jumps over it, more; the time is written as if
// it were UTC.
func (z Zone) reaches(local int64) span.Second {
	// Two days before, no zone's clock (offsets stay within 16 hours) has shown this time yet.
	at := z.stretch(span.Second(local - 2*secondsPerDay))
	for {
		if start := max(at.from, span.Second(local-at.offset)); start < at.to {
			return start
		}
		at = z.stretch(at.to)
	}
}

// DateOf is the local date of the day that holds t. After a midnight that happens twice it stays on the new date, even
// while the local clock shows the old one again.
func (z Zone) DateOf(t span.Second) Date {
	d, _ := z.Day(t)
	return d
}

// Day is the local date of the day that holds t, as DateOf, and the first instant after the day.
func (z Zone) Day(t span.Second) (d Date, end span.Second) {
	local := int64(t) + z.stretch(t).offset
	midnight := local - mod(local, secondsPerDay)
	for {
		if end = z.reaches(midnight + secondsPerDay); end > t {
			return dateOf(time.Unix(midnight, 0).UTC()), end
		}
		midnight += secondsPerDay
	}
}

// LocalDays is how many days lie between two midnights of a zone: the seconds in whole days, because clocks change by hours. A date that the
// zone skips is none of them, so that a month has as many days as there are to charge it by.
func LocalDays(s span.Span) int { return int((s.Seconds() + secondsPerDay/2) / secondsPerDay) }

// hourOf is the local clock hour that holds t. A change of offset ends an hour, so a repeated local hour is a second
// period and an hour cut by a half-hour shift is a shorter one.
func (z Zone) hourOf(t span.Second) span.Span {
	at := z.stretch(t)
	local := int64(t) + at.offset
	from := span.Second(local - mod(local, secondsPerHour) - at.offset)
	return span.Span{From: max(from, at.from), To: min(from+secondsPerHour, at.to)}
}

// stretch is a run of seconds with one offset from UTC, in seconds.
type stretch struct {
	from, to span.Second
	offset   int64
}

// stretch is the longest run around t; changes of abbreviation alone do not end it.
func (z Zone) stretch(t span.Second) stretch {
	if z.near != nil {
		i, found := slices.BinarySearchFunc(*z.near, t, func(s stretch, t span.Second) int {
			switch {
			case s.to <= t:
				return -1
			case s.from > t:
				return 1
			default:
				return 0
			}
		})
		if found {
			return (*z.near)[i]
		}
	}
	s := z.bounds(t)
	for s.from != firstSecond {
		before := z.bounds(s.from - 1)
		if before.offset != s.offset {
			break
		}
		s.from = before.from
	}
	return z.grown(s)
}

// grown adds what follows at the same offset.
func (z Zone) grown(s stretch) stretch {
	for s.to != span.Open {
		after := z.bounds(s.to)
		if after.offset != s.offset {
			break
		}
		s.to = after.to
	}
	return s
}

func (z Zone) bounds(t span.Second) stretch {
	local := z.at(t)
	_, offset := local.Zone()
	s := stretch{firstSecond, span.Open, int64(offset)}
	start, end := local.ZoneBounds()
	if !start.IsZero() {
		s.from = span.Second(start.Unix())
	}
	if !end.IsZero() {
		s.to = span.Second(end.Unix())
	}
	if s.to <= t { // ZoneBounds gives every rule-based year 365 days, so it ends before t on December 31 of a leap year
		s.to = t - mod(t, secondsPerDay) + secondsPerDay
	}
	return s
}

// at is the local clock at t.
func (z Zone) at(t span.Second) time.Time {
	must.True(z.location != nil, "a zone that was never loaded was used")
	if t <= firstSecond || t >= endSecond {
		must.Never("instant %d lies outside the years 1 to 9999", int64(t))
	}
	return time.Unix(int64(t), 0).In(z.location)
}
