package smi

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// FollowOptions say how the output of a running nvidia-smi is followed.
type FollowOptions struct {
	Options
	// MaxAge is how long a row may be believed after it came; 1.5 s, so that a loop of one second that drifts leaves no holes. A row is
	// believed twice only after one that was not, so that of a slower loop each row is one second (collector.Repeats).
	MaxAge time.Duration
	// GoneAfter is how long a device may be without a row until it is no longer one of the node; 10 s.
	GoneAfter time.Duration
	Now       func() time.Time // time.Now when nil
}

// Stream is live hardware: the output of nvidia-smi -l 1, which someone else runs. Rows count at the time they come; a timestamp
// column is not needed. It implements collector.Hardware, with itself as its only unit.
type Stream struct {
	name    string
	options FollowOptions
	in      io.Reader

	mu        sync.Mutex
	parser    *parser
	rows      map[string]*live
	driver    string
	silent    time.Time // when the driver last answered nothing
	ended     error
	scanned   []string // devices as of the last Scan
	announced []string // for which ErrChanged was said
	reported  int      // lines that were not used, of which Sample has told
	begin     sync.Once
	first     chan struct{} // closed with the first row
	done      chan struct{}
}

// live is the newest row of a device.
type live struct {
	row    row
	came   time.Time
	looked bool // at this row, by a Sample
	collector.Repeats
	faults  []usage.Fault // since the last Sample
	history history
}

// Follow begins to read. name is for logs and metrics.
func Follow(name string, r io.Reader, o FollowOptions) *Stream {
	if o.MaxAge == 0 {
		o.MaxAge = 1500 * time.Millisecond
	}
	if o.GoneAfter == 0 {
		o.GoneAfter = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Stream{name: name, options: o, in: r, parser: newParser(name, o.Options), rows: map[string]*live{}, first: make(chan struct{}), done: make(chan struct{})}
	go s.read()
	return s
}

// Done is closed when the output has ended and its last row is in.
func (s *Stream) Done() <-chan struct{} { return s.done }

func (s *Stream) read() {
	defer close(s.done)
	err := each(s.in, s.take)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = fmt.Errorf("the output of nvidia-smi (%s) has ended; start it again", s.name)
	if err != nil {
		s.ended = fmt.Errorf("the output of nvidia-smi (%s) has ended: %w", s.name, err)
	}
}

func (s *Stream) take(text string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silences := s.parser.silences
	r, ok := s.parser.line(text, why)
	now := s.options.Now()
	if s.parser.silences > silences {
		s.silent = now
	}
	if !ok {
		return
	}
	l := s.rows[r.about.Name]
	if l == nil {
		if len(s.rows) == usage.MaxBlocks {
			s.parser.report(text, fmt.Errorf("there are more than %d devices", usage.MaxBlocks))
			return
		}
		l = &live{}
		s.begin.Do(func() { close(s.first) })
		s.rows[r.about.Name] = l
	}
	for _, f := range l.history.faults(&r) {
		if !slices.Contains(l.faults, f) {
			l.faults = append(l.faults, f)
		}
	}
	if s.driver == "" {
		s.driver = r.driver
	}
	l.row, l.came, l.looked = r, now, false
}

// present are the devices that have rows, by rising name.
func (s *Stream) present(now time.Time) []string {
	var names []string
	for name, l := range s.rows {
		if now.Sub(l.came) <= s.options.GoneAfter {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Topology implements collector.Hardware.
func (s *Stream) Topology() usage.Topology {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := usage.Topology{Source: "nvidia-smi", Driver: s.driver}
	for _, name := range s.scanned {
		if l := s.rows[name]; l != nil {
			t.Devices = append(t.Devices, l.row.about)
		}
	}
	return t
}

// Scan implements collector.Hardware. The first one waits for a row, GoneAfter at most: nvidia-smi takes its time to begin. Without one
// it is an error.
func (s *Stream) Scan() ([]collector.Unit, error) {
	select {
	case <-s.first:
	case <-s.done:
	case <-time.After(s.options.GoneAfter):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return nil, s.withLast(fmt.Errorf("%w: %w", collector.ErrSession, s.ended))
	}
	now := s.options.Now()
	names := s.present(now)
	if len(names) == 0 {
		err := fmt.Errorf("nvidia-smi (%s) has printed no row for %s; start it with --query-gpu=uuid,utilization.gpu,memory.used,power.draw --format=csv -l 1", s.name, s.options.GoneAfter)
		return nil, s.withLast(err)
	}
	s.scanned, s.announced = names, nil
	for name := range s.rows {
		if !slices.Contains(names, name) {
			delete(s.rows, name)
		}
	}
	return []collector.Unit{s}, nil
}

// withLast adds the last line that was not used: it often says why there is nothing else.
func (s *Stream) withLast(err error) error {
	if s.parser.unused == 0 {
		return err
	}
	return fmt.Errorf("%w; its last line that was not used: %s", err, s.parser.last)
}

// Close implements collector.Hardware. It closes the output if that can be closed, and waits for nothing.
func (s *Stream) Close() error {
	if c, ok := s.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Name implements collector.Unit.
func (s *Stream) Name() string { return s.name }

// Devices implements collector.Unit.
func (s *Stream) Devices() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.scanned)
}

// Sample implements collector.Unit. It never waits: what came in time counts.
func (s *Stream) Sample(into []collector.Reading) ([]collector.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, old := s.options.Now(), ""
	for _, name := range s.scanned {
		l := s.rows[name]
		if l != nil {
			l.Look(l.looked)
			l.looked = true
		}
		var r collector.Reading
		switch {
		case l == nil || now.Sub(l.came) > s.options.GoneAfter:
			r = unknown(name, usage.ReasonLost)
		case s.silent.After(l.came) || s.ended != nil && now.Sub(l.came) > s.options.MaxAge:
			r = unknown(name, usage.ReasonError)
		case now.Sub(l.came) > s.options.MaxAge || !l.Fresh():
			r, old = unknown(name, usage.ReasonStale), name
		default:
			r = l.row.reading
		}
		if l != nil {
			r.Faults, l.faults = l.faults, nil
		}
		into = append(into, r)
	}
	if s.ended != nil {
		return into, fmt.Errorf("%w: %w", collector.ErrSession, s.ended)
	}
	if names := s.present(now); !slices.Equal(names, s.scanned) && !slices.Equal(names, s.announced) && len(names) > 0 {
		s.announced = names
		return into, collector.ErrChanged
	}
	n := s.parser.unused - s.reported
	s.reported = s.parser.unused
	switch {
	case n > 0:
		return into, fmt.Errorf("read nvidia-smi (%s): %w: %d of its lines, of which the last: %s", s.name, collector.ErrPartly, n, s.parser.last)
	case old != "":
		return into, fmt.Errorf("read nvidia-smi (%s): %w: device %s, which has no row in this second; it has to print every second: -l 1", s.name, collector.ErrPartly, old)
	}
	return into, nil
}

func unknown(name string, why usage.Reason) collector.Reading {
	u := collector.Unknown(why)
	return collector.Reading{Device: name, Busy: u, Memory: u, Power: u, Energy: u, Throttle: u}
}

// Capabilities implements collector.Unit.
func (s *Stream) Capabilities() []collector.Capability {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []collector.Capability
	for _, name := range s.scanned {
		for _, m := range [...]struct {
			metric, note string
			columns      []string
		}{
			{"busy", "add utilization.gpu to --query-gpu", []string{"utilization.gpu"}},
			{"memory", "add memory.used to --query-gpu", []string{"memory.used"}},
			{"power", "add power.draw to --query-gpu", []string{"power.draw", "power.draw.instant", "power.draw.average"}},
			{"energy", "nvidia-smi prints no energy counter", nil},
			{"throttle", "add clocks_event_reasons.active to --query-gpu", []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}},
			{"faults", "nvidia-smi prints no XID", []string{"ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total"}},
		} {
			c := collector.Capability{Device: name, Metric: m.metric, Reason: usage.ReasonNotSupported, Note: m.note}
			for _, column := range m.columns {
				if slices.Contains(s.parser.columns, column) && c.Via == "" {
					c.Via, c.Reason = column, usage.ReasonNone
				}
			}
			if c.Via != "" && !strings.HasPrefix(c.Note, "nvidia-smi") {
				c.Note = ""
			}
			all = append(all, c)
		}
	}
	return all
}

var _ collector.Hardware = (*Stream)(nil)
