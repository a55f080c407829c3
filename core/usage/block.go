package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/gpuhour/gpuhour/core/span"
)

// BusyUnknown marks a second in which the device answered but its utilisation could not be read.
const BusyUnknown = 255

// Reason says why a metric is unknown. The list is closed and frozen.
type Reason uint8

// Reasons.
const (
	ReasonNone Reason = iota
	ReasonNotSupported
	ReasonNotAvailable // N/A, blank or a sentinel
	ReasonPermission
	ReasonLost
	ReasonStale
	ReasonTimeout
	ReasonError
	reasonEnd
)

// FaultKind is what a fault's code counts.
type FaultKind uint8

// Fault kinds.
const (
	FaultXID FaultKind = iota + 1
	FaultECC
	FaultLost
	FaultRecovery
	FaultVendor
	faultEnd
)

// String is the kind's word in format.md.
func (k FaultKind) String() string {
	switch k {
	case FaultXID:
		return "xid"
	case FaultECC:
		return "ecc"
	case FaultLost:
		return "lost"
	case FaultRecovery:
		return "recovery"
	case FaultVendor:
		return "vendor"
	default:
		return "kind " + strconv.Itoa(int(k))
	}
}

// FaultKinds are all kinds.
func FaultKinds() (all []FaultKind) {
	for k := FaultXID; k < faultEnd; k++ {
		all = append(all, k)
	}
	return all
}

// Fault is an event of the device in one second of the minute.
type Fault struct {
	Second uint8
	Kind   FaultKind
	Code   uint64
}

// Series is one optional integer metric over a minute; Known says in which seconds it was read.
type Series struct {
	Known  span.SecondMask
	Values [span.SecondsPerMinute]int64
}

// Set records a value for second i.
func (s *Series) Set(i int, v int64) {
	s.Known |= span.Bit(i)
	s.Values[i] = v
}

// Block is what one device (or slice) said in the seconds of a batch. Its encoding is frozen; the zero value is an
// empty block.
type Block struct {
	Device string
	Seen   span.SecondMask // any metric answered
	Busy   [span.SecondsPerMinute]uint8
	Reason Reason // why Busy is unknown where it is
	// Memory in bytes, Power in milliwatt, Energy as the device's running counter in millijoule, Throttle as the
	// bit set of NVML clock event reasons.
	Memory, Power, Energy, Throttle Series
	Faults                          []Fault
}

const blockVersion = 1

// Limits of a block. MaxFaults holds for the blocks of a batch; a merged row keeps what all its batches said.
const (
	MaxDeviceBytes = 256
	MaxFaults      = 64
)

// Append writes the block's frozen form to dst (docs/format.md, Device block).
func (b *Block) Append(dst []byte) []byte {
	dst = append(dst, blockVersion)
	dst = binary.AppendUvarint(dst, uint64(len(b.Device)))
	dst = append(dst, b.Device...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Seen))
	b.Seen.Each(func(i int) { dst = append(dst, b.Busy[i]) })
	dst = append(dst, byte(b.Reason))
	for _, s := range b.series() {
		dst = s.append(dst, b.Seen)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Faults)))
	for _, f := range b.Faults {
		dst = append(dst, f.Second, byte(f.Kind))
		dst = binary.AppendUvarint(dst, f.Code)
	}
	return dst
}

func (b *Block) series() [4]*Series {
	return [4]*Series{&b.Memory, &b.Power, &b.Energy, &b.Throttle}
}

// Presence of a series in a block.
const (
	seriesAbsent  = 0
	seriesAsSeen  = 1 // known exactly where the device was seen
	seriesPartial = 2 // a mask follows
)

// append writes presence, then zigzag differences from value to value; a run of n equal values is a zero and n-1.
func (s *Series) append(dst []byte, seen span.SecondMask) []byte {
	switch s.Known {
	case 0:
		return append(dst, seriesAbsent)
	case seen:
		dst = append(dst, seriesAsSeen)
	default:
		dst = append(dst, seriesPartial)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Known))
	}
	var last int64
	var zeros uint64
	s.Known.Each(func(i int) {
		d := s.Values[i] - last
		last = s.Values[i]
		if d == 0 {
			zeros++
			return
		}
		dst = appendZeros(dst, zeros)
		zeros = 0
		dst = binary.AppendVarint(dst, d)
	})
	return appendZeros(dst, zeros)
}

func appendZeros(dst []byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, 0), n-1)
}

var errTruncated = errors.New("the block ends early")

// Decode reads a block's frozen form into b, reusing it. Anything outside the format is an error: a block is
// believed whole or not at all, and each block has one form only.
func (b *Block) Decode(data []byte) error {
	*b = Block{Faults: b.Faults[:0]}
	r := reader{data: data}
	b.Device = r.head()
	b.Seen = r.mask()
	r.busy(&b.Busy, b.Seen)
	b.Reason = Reason(r.byte())
	if r.err == nil && b.Reason >= reasonEnd {
		r.fail(fmt.Errorf("reason %d is unknown", b.Reason))
	}
	for _, s := range b.series() {
		r.series(s, b.Seen)
	}
	b.Faults = r.faults(b.Faults)
	if r.err == nil && r.left() > 0 {
		r.fail(fmt.Errorf("%d bytes follow the block", r.left()))
	}
	return r.err
}

// BlockDevice reads only the device's name from a block.
func BlockDevice(data []byte) (string, error) {
	r := reader{data: data}
	device := r.head()
	return device, r.err
}
