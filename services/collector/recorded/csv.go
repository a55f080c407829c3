package recorded

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// FullHeader is the first line of a recording that Writer writes; package recorded says what stands below it. Header is that of
// one written by hand: an unknown value is an empty cell, and throttling, faults and the devices' descriptions are left out.
const (
	Header     = "second,device,busy_percent,memory_bytes,power_milliwatt,energy_millijoule"
	FullHeader = Header + ",throttle_reasons,faults"
)

// ReadCSV reads a recording. Errors name file, line and what to write.
func ReadCSV(name string, r io.Reader) (*Recording, error) {
	in := bufio.NewReader(r)
	start, err := in.ReadSlice('\n') // a longer line than its buffer is no header
	head := strings.TrimPrefix(string(start), "\ufeff")
	header := strings.TrimRight(head, "\r\n")
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if header != Header && header != FullHeader {
		return nil, fmt.Errorf("%s:1: a recording is text in UTF-8 and begins with the line %s, or with ,throttle_reasons,faults behind it", name, Header)
	}
	p := &parser{rec: &Recording{}, first: header == Header, columns: strings.Count(header, ",") + 1}
	body := &wholeLines{r: in, all: p.first}
	lines := csv.NewReader(io.MultiReader(strings.NewReader(head), body))
	lines.FieldsPerRecord, lines.ReuseRecord = -1, true
	for head := true; ; head = false {
		cells, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if head {
			continue
		}
		if err := p.line(cells); err != nil {
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if len(body.held) > 0 && !p.first {
		p.rec.Notes = append(p.rec.Notes, name+": the last line has no end: the recording broke off inside it, and it is left out")
	}
	if p.rec.Seconds == 0 {
		return nil, fmt.Errorf("%s: the recording holds no second", name)
	}
	return p.rec, nil
}

// wholeLines passes lines on that have an end; with all set, a last line without one as well.
type wholeLines struct {
	r    io.Reader
	all  bool
	out  []byte // whole lines
	held []byte // the beginning of a line
	err  error
}

func (w *wholeLines) Read(p []byte) (int, error) {
	for len(w.out) == 0 && w.err == nil {
		n, err := w.r.Read(p)
		end := bytes.LastIndexByte(p[:n], '\n') + 1
		if end > 0 {
			w.out = append(append(w.out[:0], w.held...), p[:end]...)
			w.held = w.held[:0]
		}
		w.held = append(w.held, p[end:n]...)
		if len(w.held) > maxLine {
			err = fmt.Errorf("a line is longer than %d bytes; this is no recording", maxLine)
		}
		if w.err = err; err != nil && w.all {
			w.out = append(w.out, w.held...)
		}
	}
	n := copy(p, w.out)
	if w.out = w.out[n:]; n == 0 {
		return 0, w.err
	}
	return n, nil
}

const maxLine = 1 << 20

// parser turns lines into a recording.
type parser struct {
	rec      *Recording
	first    bool // the format before faults and reasons
	columns  int
	topology *usage.Topology // that #device lines belong to
}

// line enters one line.
func (p *parser) line(cells []string) error {
	switch {
	case !p.first && strings.HasPrefix(cells[0], "#"):
		return p.about(cells)
	case len(cells) != p.columns:
		return fmt.Errorf("%d cells; a line has %d", len(cells), p.columns)
	default:
		return p.values(cells)
	}
}

func (p *parser) values(cells []string) error {
	at, err := second(cells[0])
	if err != nil {
		return err
	}
	device := strings.Clone(cells[1])
	if device == "" {
		return p.node(at, cells)
	}
	if !nameable(device) {
		return fmt.Errorf("device %.40q is no name: 1 to %d bytes of plain text", device, usage.MaxDeviceBytes)
	}
	reading := collector.Reading{Device: device, Throttle: collector.Unknown(usage.ReasonNotSupported)}
	for i, m := range metrics(&reading)[:min(p.columns-2, 5)] {
		if *m, err = p.metric(i, cells[2+i]); err != nil {
			return err
		}
	}
	if !p.first {
		if reading.Faults, err = parseFaults(cells[7]); err != nil {
			return err
		}
	}
	return p.rec.Add(at, reading)
}

// node enters a line about the node.
func (p *parser) node(at span.Second, cells []string) error {
	switch {
	case p.first:
		return errors.New("the device is missing")
	case slices.ContainsFunc(cells[3:], func(c string) bool { return c != "" }):
		return errors.New("the device is missing; a line about the node has no values")
	case cells[2] == "":
		return p.rec.Answered(at)
	case cells[2] == "?error":
		return p.rec.Failed(at)
	}
	return fmt.Errorf("the device is missing; a line about the node has ?error or nothing in %s", column(0))
}

func second(text string) (span.Second, error) {
	at, err := strconv.ParseInt(text, 10, 32)
	if err != nil || at < 0 || at > maxSecond {
		return 0, fmt.Errorf("second %q is no whole number from 0 to %d", text, maxSecond)
	}
	return span.Second(at), nil
}

// maxSecond is 68 years, and leaves room to add one.
const maxSecond = math.MaxInt32 - 1

func column(i int) string { return strings.Split(FullHeader, ",")[2+i] }

func metrics(r *collector.Reading) []*collector.Metric {
	return []*collector.Metric{&r.Busy, &r.Memory, &r.Power, &r.Energy, &r.Throttle}
}

// metric reads a cell of a value.
func (p *parser) metric(i int, text string) (collector.Metric, error) {
	if text == "" {
		return collector.Unknown(usage.ReasonNotAvailable), nil
	}
	if why, ok := strings.CutPrefix(text, "?"); ok && !p.first {
		for r := usage.ReasonNotSupported; r <= usage.ReasonError; r++ {
			if reasonWord(r) == why {
				return collector.Unknown(r), nil
			}
		}
		return collector.Metric{}, fmt.Errorf("%s %q is no reason; write one of not_supported not_available permission lost stale timeout error behind ?", column(i), text)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || p.first && i == 0 && v > 100 {
		return collector.Metric{}, fmt.Errorf("%s %q is no whole number in its range; leave the cell empty when it could not be read", column(i), text)
	}
	return collector.Known(v), nil
}

// reasonWord is a reason's word in format.md; a gap has the same numbers and words.
func reasonWord(r usage.Reason) string { return usage.GapReason(r).String() }

func parseFaults(text string) ([]usage.Fault, error) {
	if text == "" {
		return nil, nil
	}
	var faults []usage.Fault
	kinds := usage.FaultKinds()
	var kindWords []string
	for _, k := range kinds {
		kindWords = append(kindWords, k.String())
	}
	for word := range strings.SplitSeq(text, " ") {
		kind, code, _ := strings.Cut(word, ":")
		k := slices.Index(kindWords, kind)
		n, err := strconv.ParseUint(code, 10, 64)
		if k < 0 || err != nil {
			return nil, fmt.Errorf("fault %q is none; write kind:code, with the kinds %s", word, strings.Join(kindWords, " "))
		}
		faults = append(faults, usage.Fault{Kind: kinds[k], Code: n})
	}
	return faults, nil
}

// about enters a line that tells of the whole.
func (p *parser) about(cells []string) error {
	cells = slices.Clone(cells)
	for i := range cells {
		cells[i] = strings.Clone(cells[i])
		if !plain(cells[i]) {
			return fmt.Errorf("cell %d of %s is too long or no plain text", i+1, cells[0])
		}
	}
	switch {
	case cells[0] == "#begin" && len(cells) == 2:
		at, err := time.Parse(time.RFC3339, cells[1])
		if err != nil || at.Unix() <= 0 || p.rec.Begin != 0 {
			return fmt.Errorf("#begin %q is no instant after 1970, like 2026-01-01T00:00:00Z, or is the second one", cells[1])
		}
		p.rec.Begin = span.Second(at.Unix())
		return nil
	case cells[0] == "#source" && len(cells) == 4:
		at, err := second(cells[1])
		if err != nil {
			return err
		}
		p.topology, err = p.rec.SetTopology(at, usage.Topology{Source: cells[2], Driver: cells[3]})
		return err
	case cells[0] == "#device" && len(cells) == 9:
		return p.device(cells)
	}
	return fmt.Errorf("%s with %d cells is unknown; lines with # are #begin, #source and #device", cells[0], len(cells))
}

func (p *parser) device(cells []string) error {
	if p.topology == nil {
		return errors.New("#device stands before any #source")
	}
	bytes, err := strconv.ParseInt(cells[8], 10, 64)
	if err != nil || bytes < 0 {
		return fmt.Errorf("memory_bytes %q of #device is no whole number from 0", cells[8])
	}
	if n := len(p.topology.Devices); !nameable(cells[1]) || n == usage.MaxBlocks || n > 0 && p.topology.Devices[n-1].Name >= cells[1] {
		return fmt.Errorf("#device %q: names rise, and there are at most %d", cells[1], usage.MaxBlocks)
	}
	p.topology.Devices = append(p.topology.Devices, usage.Device{
		Name: cells[1], Parent: cells[2], Vendor: cells[3], Model: cells[4], Serial: cells[5], PCI: cells[6], Profile: cells[7], MemoryBytes: bytes,
	})
	return nil
}
