package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
)

// reader takes a block apart; after the first error everything reads as zero. It moves a number through the bytes and
// not a slice, because a pointer that is written for each value costs more than the value.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) left() int { return len(r.data) - r.at }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.data)
}

func (r *reader) byte() byte {
	if r.at >= len(r.data) {
		r.fail(errTruncated)
		return 0
	}
	v := r.data[r.at]
	r.at++
	return v
}

// head reads the version and the device's name.
func (r *reader) head() string {
	if v := r.byte(); r.err == nil && v != blockVersion {
		r.fail(fmt.Errorf("block version %d is unknown", v))
	}
	raw := r.bytes(r.uvarint(), MaxDeviceBytes)
	switch {
	case r.err != nil:
	case len(raw) == 0:
		r.fail(errors.New("the block names no device"))
	case !utf8.Valid(raw):
		r.fail(fmt.Errorf("device %q is not valid UTF-8", raw))
	}
	return string(raw)
}

func (r *reader) bytes(n, limit uint64) []byte {
	switch {
	case n > limit:
		r.fail(fmt.Errorf("a field of %d bytes is longer than %d", n, limit))
		return nil
	case n > uint64(r.left()):
		r.fail(errTruncated)
		return nil
	}
	v := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return v
}

// uvarint refuses numbers that could be written with fewer bytes, so that one value has one form.
func (r *reader) uvarint() uint64 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		r.at++
		return uint64(r.data[r.at-1])
	}
	v, n := binary.Uvarint(r.data[r.at:])
	switch {
	case n == 0:
		r.fail(errTruncated)
		return 0
	case n < 0 || r.data[r.at+n-1] == 0:
		r.fail(errors.New("a number has more than 64 bits or a shorter form"))
		return 0
	}
	r.at += n
	return v
}

// varint reads a zigzag number.
func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) mask() span.SecondMask {
	raw := r.bytes(8, 8)
	if raw == nil {
		return 0
	}
	m := span.SecondMask(binary.LittleEndian.Uint64(raw))
	if !m.Valid() {
		r.fail(fmt.Errorf("mask %#x names a second above 59", uint64(m)))
		return 0
	}
	return m
}

// busy reads one byte for each seen second.
func (r *reader) busy(into *[span.SecondsPerMinute]uint8, seen span.SecondMask) {
	raw := r.bytes(uint64(seen.Count()), span.SecondsPerMinute)
	for k, rest := 0, seen; k < len(raw); k, rest = k+1, rest&(rest-1) {
		if raw[k] > 100 && raw[k] != BusyUnknown {
			r.fail(fmt.Errorf("utilisation %d is neither 0 to 100 nor unknown", raw[k]))
			return
		}
		into[rest.First()] = raw[k]
	}
}

func (r *reader) series(s *Series, seen span.SecondMask) {
	switch kind := r.byte(); {
	case kind == seriesAbsent || r.err != nil:
		return
	case kind == seriesAsSeen && seen != 0:
		s.Known = seen
	case kind == seriesPartial:
		s.Known = r.mask()
		if s.Known == 0 || s.Known == seen || s.Known&^seen != 0 {
			r.fail(fmt.Errorf("a partial series known in %#x of %#x has a shorter form or none", uint64(s.Known), uint64(seen)))
		}
	default:
		r.fail(fmt.Errorf("series form %d is unknown, or empty", kind))
	}
	r.differences(s)
}

// differences reads what Series.append wrote. A run of equal values that is followed by another one could have been
// one run, so it is refused.
func (r *reader) differences(s *Series) {
	var last int64
	var zeros uint64
	afterRun := false
	for rest := s.Known; rest != 0 && r.err == nil; rest &= rest - 1 {
		switch {
		case zeros > 0:
			zeros--
		default:
			d := r.varint()
			if d == 0 && afterRun {
				r.fail(errors.New("a run of equal values is written in two parts"))
			}
			if afterRun = d == 0; afterRun {
				zeros = r.uvarint()
			}
			last += d
		}
		s.Values[rest.First()] = last
	}
	if zeros > 0 {
		r.fail(fmt.Errorf("a run of equal values goes on %d seconds past the series", zeros))
	}
}

// faults reads the list; each takes at least three bytes, which bounds what a length can claim.
func (r *reader) faults(into []Fault) []Fault {
	n := r.uvarint()
	if n > uint64(r.left()/3) {
		r.fail(fmt.Errorf("a list of %d faults: %w", n, errTruncated))
		return into
	}
	for ; n > 0 && r.err == nil; n-- {
		into = append(into, r.fault())
	}
	return into
}

func (r *reader) fault() Fault {
	f := Fault{Second: r.byte(), Kind: FaultKind(r.byte()), Code: r.uvarint()}
	if r.err == nil && (f.Second >= span.SecondsPerMinute || f.Kind == 0 || f.Kind >= faultEnd) {
		r.fail(fmt.Errorf("fault kind %d in second %d is unknown", f.Kind, f.Second))
	}
	return f
}
