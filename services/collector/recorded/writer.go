package recorded

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Writer writes a recording as it happens: after each second everything is with the underlying writer, so that a process
// that is killed leaves a recording that breaks off in its last line at most.
type Writer struct {
	out     *bufio.Writer
	csv     *csv.Writer
	begun   bool
	begin   span.Second
	last    span.Second
	skipped uint64
	cells   []string

	topology *usage.Topology // that is to be written
}

// NewWriter begins a recording. Its second 0 is the first one that is written.
func NewWriter(w io.Writer) *Writer {
	out := bufio.NewWriter(w)
	return &Writer{out: out, csv: csv.NewWriter(out)}
}

// Skipped counts seconds that were not written because the clock had been there before: of two values for one second the
// first stands, as in the log.
func (w *Writer) Skipped() uint64 { return w.skipped }

// Topology says how the devices are from the next second on that is written.
func (w *Writer) Topology(t usage.Topology) {
	t.Devices = slices.Clone(t.Devices)
	w.topology = &t
}

// Write writes one second: what each device said, or that the node answered nothing.
func (w *Writer) Write(at span.Second, readings []collector.Reading, failed bool) error {
	if w.begun && at <= w.last {
		w.skipped++
		return nil
	}
	for i := range readings {
		if name := readings[i].Device; !nameable(name) {
			return fmt.Errorf("record second %s: device %.40q is no name that a recording can hold", at, name)
		}
	}
	w.start(at)
	w.last = at
	if t := w.topology; t != nil {
		w.about("#source", w.offset(at), t.Source, t.Driver)
		for i := range t.Devices {
			if d := &t.Devices[i]; nameable(d.Name) {
				w.about("#device", d.Name, d.Parent, d.Vendor, d.Model, d.Serial, d.PCI, d.Profile, strconv.FormatInt(d.MemoryBytes, 10))
			}
		}
		w.topology = nil
	}
	switch {
	case failed:
		w.put(w.offset(at), "", "?error", "", "", "", "", "")
	case len(readings) == 0:
		w.put(w.offset(at), "", "", "", "", "", "", "")
	default:
		for i := range readings {
			w.reading(at, &readings[i])
		}
	}
	return w.flush()
}

// start writes what stands at the top, once.
func (w *Writer) start(at span.Second) {
	if w.begun {
		return
	}
	w.begun, w.begin = true, at
	w.put(strings.Split(FullHeader, ",")...)
	if at > 0 {
		w.put("#begin", time.Unix(int64(at), 0).UTC().Format(time.RFC3339))
	}
}

func (w *Writer) offset(at span.Second) string { return strconv.FormatInt(int64(at-w.begin), 10) }

func (w *Writer) reading(at span.Second, r *collector.Reading) {
	w.cells = append(w.cells[:0], w.offset(at), r.Device)
	for _, m := range metrics(r) {
		cell := ""
		switch m.Reason {
		case usage.ReasonNone:
			cell = strconv.FormatInt(m.Value, 10)
		case usage.ReasonNotAvailable:
		default:
			cell = "?" + reasonWord(m.Reason)
		}
		w.cells = append(w.cells, cell)
	}
	words := make([]string, 0, len(r.Faults))
	for _, f := range r.Faults {
		if slices.Contains(usage.FaultKinds(), f.Kind) {
			words = append(words, f.Kind.String()+":"+strconv.FormatUint(f.Code, 10))
		}
	}
	w.put(append(w.cells, strings.Join(slices.Compact(words), " "))...)
}

// about puts a line of a topology. Text that a batch could not carry either is left empty.
func (w *Writer) about(cells ...string) {
	for i, c := range cells {
		if !plain(c) {
			cells[i] = ""
		}
	}
	w.put(cells...)
}

// put hands a line to the CSV writer, which keeps the first error until flush.
func (w *Writer) put(cells ...string) { _ = w.csv.Write(cells) }

func (w *Writer) flush() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}
