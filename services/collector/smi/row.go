package smi

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Options say what the text does not.
type Options struct {
	Zone    *time.Location // of timestamps; UTC when nil
	Columns []string       // of text without a header
	ByIndex bool           // an index names a device where nothing better does
}

// Bad is a line, or a cell of one, that was not used: where it stands, why, and what to do.
type Bad struct {
	File string
	Line int
	Why  error
	Text string
}

func (b Bad) String() string { return fmt.Sprintf("%s:%d: %v: %s", b.File, b.Line, b.Why, b.Text) }

// row is a line with values of one device.
type row struct {
	at      time.Time // zero without a timestamp
	reading collector.Reading
	about   usage.Device
	driver  string
	ecc     [2]collector.Metric // volatile, aggregate
}

// parser turns lines into rows. Its columns are those of the last header.
type parser struct {
	file    string
	options Options
	columns []string
	units   []string // that stand in the header
	lines   int
	bad     []Bad // the first ones
	last    Bad
	unused  int               // all of them
	uuids   map[string]string // by bus address, as rows have said
	// silences counts messages of the driver: no device was seen there.
	silences int
}

func newParser(file string, o Options) *parser {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	p := &parser{file: file, options: o, uuids: map[string]string{}}
	if len(o.Columns) > 0 {
		p.header(o.Columns)
	}
	return p
}

// report keeps a line that was not used.
func (p *parser) report(text string, why error) {
	text = strings.TrimSpace(text)
	if len(text) > maxBadText {
		text = text[:maxBadText] + "..."
	}
	p.unused++
	p.last = Bad{p.file, p.lines, why, strings.ToValidUTF8(text, "?")}
	if len(p.bad) < maxBad {
		p.bad = append(p.bad, p.last)
	}
}

// maxBadText is how much of a line is repeated, maxBad how many reports are kept; all are counted.
const (
	maxBadText = 160
	maxBad     = 10_000
)

// messages are beginnings of lines that nvidia-smi prints in place of rows.
//
//tidy:const
var messages = [...]string{
	"failed to initialize nvml", "nvidia-smi has failed", "no devices were found", "unable to determine the device handle", "gpu is lost",
	"unable to query", "error:", "terminating early", "reboot the system", "make sure that", "driver/library version mismatch", "nvml library version",
}

var errNoText = errors.New("this is no text in UTF-8; write it anew, in PowerShell with | Out-File -Encoding utf8")

var errDriver = errors.New("the driver answered nothing here; until the next row no device was seen")

// line takes one line; why says that it cannot be used. ok tells whether it is a row.
func (p *parser) line(text string, why error) (r row, ok bool) {
	p.lines++
	if why == nil && strings.ContainsRune(text, 0) {
		why = errNoText
	}
	if why != nil {
		p.report(text, why)
		return row{}, false
	}
	text = strings.Trim(strings.TrimPrefix(text, "\ufeff"), " \t\r\n")
	lower := strings.ToLower(text)
	if text == "" || slices.ContainsFunc(messages[:], func(m string) bool { return strings.HasPrefix(lower, m) }) {
		if text != "" {
			p.silences++
			p.report(text, errDriver)
		}
		return row{}, false
	}
	cells := strings.Split(text, ",")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if headed(cells) {
		p.header(cells)
		return row{}, false
	}
	switch {
	case p.columns == nil:
		p.report(text, errors.New("no header stands before this line; leave noheader out of --format, or say the columns"))
		return row{}, false
	case len(cells) != len(p.columns):
		p.report(text, fmt.Errorf("%d cells, where the header has %d; the line was cut, or another program wrote into it", len(cells), len(p.columns)))
		return row{}, false
	}
	r, err := p.row(cells, text)
	if err != nil {
		p.report(text, err)
		return row{}, false
	}
	return r, true
}

// Headed tells whether one of the lines of a text is a header of nvidia-smi's CSV.
func Headed(text string) bool {
	for line := range strings.Lines(text) {
		if headed(strings.Split(strings.Trim(strings.TrimPrefix(line, "\ufeff"), " \t\r\n"), ",")) {
			return true
		}
	}
	return false
}

// headed tells whether a line is a header: each cell is a word of the query language, and one of those that are read is among them.
func headed(cells []string) bool {
	known := false
	for _, c := range cells {
		name, _ := columnName(c)
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._") != "" || name[0] < 'a' {
			return false
		}
		_, read := rank(name)
		known = known || read
	}
	return known
}

// columnName takes "power.draw [W]" apart.
func columnName(text string) (name, unit string) {
	name, unit, _ = strings.Cut(text, "[")
	return strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(unit), "]"))
}

func (p *parser) header(cells []string) {
	p.columns, p.units = make([]string, len(cells)), make([]string, len(cells))
	for i, c := range cells {
		p.columns[i], p.units[i] = columnName(c)
	}
}

// rank says what a column is read as, by a key, and which of several columns of one key is preferred: the least.
func rank(name string) (int, bool) {
	switch name {
	case "uuid", "gpu_uuid", "timestamp", "index", "name", "gpu_name", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial", "memory.total", "driver_version",
		"utilization.gpu", "memory.used", "power.draw", "clocks_event_reasons.active", "ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total":
		return 0, true
	case "power.draw.instant", "clocks_throttle_reasons.active":
		return 1, true
	case "power.draw.average":
		return 2, true
	default:
		return 0, false
	}
}

// row reads the cells of a line.
func (p *parser) row(cells []string, text string) (row, error) {
	get := func(names ...string) (cell, unit string) {
		for _, name := range names {
			if i := slices.Index(p.columns, name); i >= 0 {
				return cells[i], p.units[i]
			}
		}
		return "", ""
	}
	value := func(scale scale, names ...string) collector.Metric {
		for i, name := range names {
			if !slices.Contains(p.columns, name) {
				continue
			}
			cell, unit := get(name)
			m, err := scale.read(cell, unit)
			if err != nil {
				p.report(text, fmt.Errorf("%s %q %w; the value is unknown here", name, cell, err))
			}
			if m.Read() || i == len(names)-1 || !slices.ContainsFunc(names[i+1:], func(n string) bool { return slices.Contains(p.columns, n) }) {
				return m
			}
		}
		return collector.Unknown(usage.ReasonNotSupported)
	}
	word := func(names ...string) string {
		cell, _ := get(names...)
		if _, none := reasonOf(cell); none || !plain(cell) {
			return ""
		}
		return cell
	}
	r := row{
		about: usage.Device{
			Vendor: "nvidia", Model: word("name", "gpu_name"), Serial: word("serial", "gpu_serial"), PCI: word("pci.bus_id", "gpu_bus_id"),
		},
		driver: word("driver_version"),
	}
	if r.about.Name = p.name(&r.about, word); r.about.Name == "" {
		return r, errors.New("no cell names the device; add uuid to --query-gpu, or pci.bus_id in its place")
	}
	if stamp, _ := get("timestamp"); slices.Contains(p.columns, "timestamp") {
		at, err := time.ParseInLocation("2006/01/02 15:04:05", stamp, p.options.Zone)
		if err != nil || at.Unix() <= 0 {
			return r, fmt.Errorf("timestamp %q is no time after 1970 like 2024/05/01 12:00:00.123", stamp)
		}
		r.at = at
	}
	r.reading = collector.Reading{
		Device:   r.about.Name,
		Busy:     value(percent, "utilization.gpu"),
		Memory:   value(bytes, "memory.used"),
		Power:    value(milliwatt, "power.draw", "power.draw.instant", "power.draw.average"),
		Energy:   collector.Unknown(usage.ReasonNotSupported),
		Throttle: value(bits, "clocks_event_reasons.active", "clocks_throttle_reasons.active"),
	}
	r.ecc = [2]collector.Metric{value(plainCount, "ecc.errors.uncorrected.volatile.total"), value(plainCount, "ecc.errors.uncorrected.aggregate.total")}
	if total := value(bytes, "memory.total"); total.Read() {
		r.about.MemoryBytes = total.Value
	}
	return r, nil
}

// name is what the first of the columns that may name a device says. A GPU that is lost has a bus address, and words in place of its UUID:
// it is the one that was there before, and no device that is called by its address.
func (p *parser) name(about *usage.Device, word func(...string) string) string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(p.columns, n) })
	}
	switch {
	case has("uuid", "gpu_uuid"):
		uuid := word("uuid", "gpu_uuid")
		if uuid == "" {
			return p.uuids[about.PCI]
		}
		if about.PCI != "" && len(p.uuids) < usage.MaxBlocks {
			p.uuids[about.PCI] = uuid
		}
		return uuid
	case has("pci.bus_id", "gpu_bus_id"):
		return about.PCI
	case has("serial", "gpu_serial"):
		return about.Serial
	}
	if index := word("index"); index != "" && p.options.ByIndex {
		return "index-" + index
	}
	return ""
}

// scale is how a column's numbers are read.
type scale uint8

const (
	percent scale = iota
	bytes
	milliwatt
	bits
	plainCount
)

// factor is what a unit is worth; the empty one is nvidia-smi's own for the column.
func (s scale) factor(unit string) (float64, bool) {
	switch s {
	case percent:
		return 1, unit == "" || unit == "%"
	case milliwatt:
		if unit == "mW" {
			return 1, true
		}
		return 1000, unit == "" || unit == "W"
	case bytes:
		switch unit {
		case "", "MiB":
			return 1 << 20, true
		case "KiB":
			return 1 << 10, true
		case "GiB":
			return 1 << 30, true
		case "B":
			return 1, true
		}
		return 0, false
	default:
		return 1, unit == ""
	}
}

var errNumber = errors.New("is neither a number with a unit that is known nor a word for why there is none")

// read takes a cell apart: 35 %, 1024 MiB, 71.30 W, 0x0000000000000004, [N/A].
func (s scale) read(cell, headerUnit string) (collector.Metric, error) {
	if why, none := reasonOf(cell); none {
		return collector.Unknown(why), nil
	}
	unknown := collector.Unknown(usage.ReasonNotAvailable)
	if s == bits {
		hex, ok := strings.CutPrefix(strings.ToLower(cell), "0x")
		v, err := strconv.ParseUint(hex, 16, 63)
		if err != nil || !ok {
			return unknown, errNumber
		}
		return collector.Known(int64(v)), nil
	}
	end := strings.IndexFunc(cell, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(cell)
	}
	unit := strings.TrimSpace(cell[end:])
	if unit == "" {
		unit = headerUnit
	}
	f, ok := s.factor(unit)
	v, err := strconv.ParseFloat(cell[:end], 64)
	if err != nil || !ok {
		return unknown, errNumber
	}
	v = math.Floor(v*f + 0.5)
	if v >= 1<<62 || cell[:end] == "4294967295" || s == percent && v > 200 {
		return unknown, nil // a driver's sentinel
	}
	return collector.Known(int64(v)), nil
}

// reasonOf tells whether a cell is a word in place of a value, and which reason it gives.
func reasonOf(cell string) (usage.Reason, bool) {
	word := strings.ToLower(strings.TrimSpace(strings.Trim(cell, "[]")))
	switch {
	case word == "" || word == "not found" || word == "none":
		return usage.ReasonNotAvailable, true
	case word == "n/a" || word == "not supported" || strings.HasPrefix(word, "requested functionality"):
		return usage.ReasonNotSupported, true
	case strings.HasPrefix(word, "gpu is lost"):
		return usage.ReasonLost, true
	case strings.HasPrefix(word, "insufficient permission"), strings.HasPrefix(word, "no permission"):
		return usage.ReasonPermission, true
	case strings.HasPrefix(word, "err!"), strings.HasPrefix(word, "unknown error"), strings.HasPrefix(word, "gpu requires reset"), strings.HasPrefix(word, "reset required"), word == "timeout":
		return usage.ReasonError, true
	}
	return usage.ReasonNone, false
}

func plain(s string) bool {
	return len(s) <= usage.MaxNameBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// nvmlLost is NVML's return code for a GPU that is lost.
const nvmlLost = 15

// history is what faults of a device are told by, from row to row.
type history struct {
	known bool
	lost  bool
	ecc   [2]collector.Metric
}

// faults compares a row with the ones before. What stood at the first one is no fault.
func (h *history) faults(r *row) []usage.Fault {
	var found []usage.Fault
	lost := r.reading.Busy.Reason == usage.ReasonLost || r.reading.Memory.Reason == usage.ReasonLost || r.reading.Power.Reason == usage.ReasonLost
	if lost && !h.lost && h.known {
		found = append(found, usage.Fault{Kind: usage.FaultLost, Code: nvmlLost})
	}
	counted := false
	for i := range r.ecc {
		now, before := r.ecc[i], h.ecc[i]
		if !now.Read() {
			continue
		}
		if more := now.Value - before.Value; h.known && before.Read() && !counted {
			if more < 0 {
				more = now.Value // the driver was loaded anew
			}
			if more > 0 {
				found = append(found, usage.Fault{Kind: usage.FaultECC, Code: uint64(more)})
			}
			counted = true
		}
		h.ecc[i] = now
	}
	if !h.known {
		for i := range h.ecc {
			if !r.ecc[i].Read() {
				h.ecc[i] = collector.Unknown(usage.ReasonNotAvailable)
			}
		}
	}
	h.known, h.lost = true, lost
	return found
}
