package recorded

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Header is the first line of a recording. second counts from 0; an empty cell is a metric that could not be read; a
// device without a line in a second did not exist for the collector then, a second without any line was slept through.
const Header = "second,device,busy_percent,memory_bytes,power_milliwatt,energy_millijoule"

// Recording is a trace of one node with seconds from 0.
type Recording struct {
	Seconds span.Second
	devices map[string]Table
	ran     map[span.Second]bool
}

// ReadCSV reads a recording. Errors name file, line and what to write.
func ReadCSV(name string, r io.Reader) (*Recording, error) {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = strings.Count(Header, ",") + 1
	head, err := lines.Read()
	if err != nil || strings.Join(head, ",") != Header {
		return nil, fmt.Errorf("%s:1: a recording begins with the line %s", name, Header)
	}
	rec := &Recording{devices: map[string]Table{}, ran: map[span.Second]bool{}}
	for {
		cells, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := rec.add(cells); err != nil {
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if len(rec.ran) == 0 {
		return nil, fmt.Errorf("%s: the recording holds no second", name)
	}
	return rec, nil
}

func (rec *Recording) add(cells []string) error {
	at, err := strconv.ParseInt(cells[0], 10, 32)
	if err != nil || at < 0 {
		return fmt.Errorf("second %q is no whole number from 0", cells[0])
	}
	device := cells[1]
	if device == "" {
		return errors.New("the device is missing")
	}
	reading := collector.Reading{Device: device, Throttle: collector.Unknown(usage.ReasonNotSupported)}
	for i, m := range []*collector.Metric{&reading.Busy, &reading.Memory, &reading.Power, &reading.Energy} {
		text := cells[2+i]
		if text == "" {
			*m = collector.Unknown(usage.ReasonNotAvailable)
			continue
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || i == 0 && v > 100 {
			return fmt.Errorf("%s %q is no whole number in its range; leave the cell empty when it could not be read", strings.Split(Header, ",")[2+i], text)
		}
		*m = collector.Known(v)
	}
	second := span.Second(at)
	if _, twice := rec.devices[device][second]; twice {
		return fmt.Errorf("device %s has second %d twice", device, at)
	}
	if rec.devices[device] == nil {
		rec.devices[device] = Table{}
	}
	rec.devices[device][second] = reading
	rec.ran[second] = true
	rec.Seconds = max(rec.Seconds, second+1)
	return nil
}

// From gives the recording as a source that begins at an instant and, when loop is set, begins again when it ends.
func (rec *Recording) From(start span.Second, loop bool) *Source {
	s := &Source{Window: span.Span{From: start, To: start + rec.Seconds}}
	offset := func(at span.Second) span.Second { return (at - start) % rec.Seconds }
	if loop {
		s.Window.To = span.Open
	}
	s.Slept = func(at span.Second) bool { return !rec.ran[offset(at)] }
	names := make([]string, 0, len(rec.devices))
	for name := range rec.devices {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s.Devices = append(s.Devices, shifted{rec.devices[name], offset})
	}
	return s
}

// shifted is a table whose seconds begin elsewhere.
type shifted struct {
	table  Table
	offset func(span.Second) span.Second
}

// At implements Series.
func (s shifted) At(at span.Second, r *collector.Reading) bool { return s.table.At(s.offset(at), r) }
