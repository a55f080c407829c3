package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

// Result is what a file holds. Each of its lines is blank, a header, a row, or in Bad.
type Result struct {
	Recording *recorded.Recording // Begin is the second of the first row
	Rows      int
	Replaced  int   // rows after which a later one of the same device and second stands
	Bad       []Bad // the first 10,000; BadCount counts all
	BadCount  int
}

// Read reads a file. It is an error when the file cannot be read, or no row of it can be used; what else is wrong stands in Bad.
func Read(file string, r io.Reader, o Options) (*Result, error) {
	b := &builder{p: newParser(file, o), rec: &recorded.Recording{}, devices: map[string]*pending{}}
	err := each(r, func(text string, why error) {
		if r, ok := b.p.line(text, why); ok {
			b.row(&r, text)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, name := range b.names() {
		b.add(b.devices[name])
	}
	if b.rec.Seconds == 0 {
		err := fmt.Errorf("%s: no row of nvidia-smi's CSV is in it", file)
		if b.p.unused > 0 {
			err = fmt.Errorf("%w; the first of %d lines that were not used: %s", err, b.p.unused, b.p.bad[0])
		}
		return nil, err
	}
	if err := b.topology(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	slices.SortStableFunc(b.p.bad, func(x, y Bad) int { return x.Line - y.Line })
	return &Result{b.rec, b.rows, b.replaced, b.p.bad, b.p.unused}, nil
}

// pending is a device's last row, which a later one of its second may replace.
type pending struct {
	second  int64
	line    int
	text    string
	reading collector.Reading
	about   usage.Device
	history history
}

type builder struct {
	p              *parser
	rec            *recorded.Recording
	begin          int64
	driver         string
	devices        map[string]*pending
	rows, replaced int
}

func (b *builder) row(r *row, text string) {
	if r.at.IsZero() {
		b.p.report(text, errors.New("the row has no time; add timestamp to --query-gpu"))
		return
	}
	d, known := b.devices[r.about.Name]
	if !known {
		if len(b.devices) == usage.MaxBlocks {
			b.p.report(text, fmt.Errorf("there are more than %d devices", usage.MaxBlocks))
			return
		}
		d = &pending{second: -1, about: r.about}
		b.devices[r.about.Name] = d
	}
	if b.driver == "" {
		b.driver = r.driver
	}
	b.rows++
	at := r.at.Unix()
	if b.begin == 0 {
		b.begin = at
		b.rec.Begin = span.Second(at)
	}
	r.reading.Faults = d.history.faults(r)
	if d.second == at {
		b.replaced++
		r.reading.Faults = append(slices.Clip(d.reading.Faults), r.reading.Faults...)
	} else {
		b.add(d)
	}
	d.second, d.line, d.text, d.reading = at, b.p.lines, text, r.reading
}

// add enters a device's last row into the recording.
func (b *builder) add(d *pending) {
	if d.second < 0 {
		return
	}
	if err := b.rec.Add(span.Second(d.second-b.begin), d.reading); err != nil {
		now := b.p.lines
		b.p.lines = d.line
		b.p.report(d.text, fmt.Errorf("%w, counted from the first row; the clock went back here, and the first row stands", err))
		b.p.lines = now
	}
}

func (b *builder) names() []string {
	names := make([]string, 0, len(b.devices))
	for name := range b.devices {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b *builder) topology() error {
	t := usage.Topology{Source: "nvidia-smi", Driver: b.driver}
	for _, name := range b.names() {
		t.Devices = append(t.Devices, b.devices[name].about)
	}
	_, err := b.rec.SetTopology(0, t)
	return err
}
