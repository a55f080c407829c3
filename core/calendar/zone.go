package calendar

import (
	"archive/zip"
	_ "embed" // the tz database travels inside the binary, so that no host's copy decides a bill
	"fmt"
	"io"
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
type Zone struct{ location *time.Location }

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
	return Zone{location}, nil
}

// unknownZone suggests the zone meant: other letters, a city without its area, or a near miss.
func unknownZone(name string, files []*zip.File) error {
	names := make([]string, 0, len(files))
	for _, f := range files {
		_, city, _ := strings.Cut(f.Name, "/")
		if name != "" && (strings.EqualFold(name, f.Name) || strings.EqualFold(name, city)) {
			return fmt.Errorf("unknown timezone %q; did you mean %s?", name, f.Name)
		}
		names = append(names, f.Name)
	}
	if near, ok := nearest.Of(name, names); ok {
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
func (z Zone) StartOfDay(d Date) span.Second {
	midnight := d.utc().Unix()
	// Two days before, no zone's clock (offsets stay within 16 hours) has reached this midnight yet.
	at := z.stretch(span.Second(midnight - 2*secondsPerDay))
	for {
		if start := max(at.from, span.Second(midnight-at.offset)); start < at.to {
			return start
		}
		at = z.stretch(at.to)
	}
}

// DateOf is the local date of the day that holds t. After a midnight that happens twice it stays on the new date, even
// while the local clock shows the old one again.
func (z Zone) DateOf(t span.Second) Date {
	local := z.at(t)
	d := Date{local.Year(), local.Month(), local.Day()}
	for next := d.AddDays(1); z.StartOfDay(next) <= t; next = d.AddDays(1) {
		d = next
	}
	return d
}

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
	s := z.bounds(t)
	for s.from != firstSecond {
		before := z.bounds(s.from - 1)
		if before.offset != s.offset {
			break
		}
		s.from = before.from
	}
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
	must.True(firstSecond < t && t < endSecond, "instant %d lies outside the years 1 to 9999", int64(t))
	return time.Unix(int64(t), 0).In(z.location)
}
