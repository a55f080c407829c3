package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

type kind byte

const (
	kindState kind = iota + 1
	kindBatch
	kindMark
	kindStop
	kindBegin
)

const (
	headerBytes    = 8
	maxRecordBytes = 64 << 20
)

//tidy:const
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord writes one record; body appends its body.
func appendRecord(dst []byte, k kind, body func([]byte) []byte) []byte {
	start := len(dst)
	dst = body(append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(k)))
	payload := dst[start+headerBytes:]
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(payload, castagnoli))
	return dst
}

var errBadRecord = errors.New("the record is cut or damaged")

// nextRecord splits the first record off data. size is its whole length on disk.
func nextRecord(data []byte) (k kind, body []byte, size int, err error) {
	if len(data) < headerBytes+1 {
		return 0, nil, 0, errBadRecord
	}
	length := int(binary.LittleEndian.Uint32(data))
	if length < 1 || length > maxRecordBytes || length > len(data)-headerBytes {
		return 0, nil, 0, errBadRecord
	}
	payload := data[headerBytes : headerBytes+length]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return 0, nil, 0, errBadRecord
	}
	return kind(payload[0]), payload[1:], headerBytes + length, nil
}

func appendBatch(dst []byte, b *usage.Batch) []byte {
	dst = appendText(appendText(dst, b.Node), b.Boot)
	for _, v := range [...]uint64{
		b.Run, b.Seq, b.PreviousRun, b.PreviousSeq, uint64(b.Minute), uint64(b.Spoken), uint64(b.Clock.State),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, b.Clock.OffsetNanos), b.Clock.ErrorBoundNano)
	dst = binary.AppendUvarint(dst, uint64(len(b.Blocks)))
	for _, block := range b.Blocks {
		dst = append(binary.AppendUvarint(dst, uint64(len(block))), block...)
	}
	if len(b.Gaps) > 0 || b.Topology != nil { // a batch that has neither ends here
		dst = appendTopology(appendGaps(dst, b.Gaps), b.Topology)
	}
	return dst
}

func appendGaps(dst []byte, gaps []usage.Gap) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(gaps)))
	for _, g := range gaps {
		dst = appendText(dst, g.Device)
		for _, v := range [...]uint64{uint64(g.From), uint64(g.To), uint64(g.Reason)} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

func appendTopology(dst []byte, t *usage.Topology) []byte {
	if t == nil {
		return dst
	}
	dst = appendText(appendText(dst, t.Source), t.Driver)
	dst = binary.AppendUvarint(dst, uint64(len(t.Devices)))
	for _, d := range t.Devices {
		for _, s := range [...]string{d.Name, d.Parent, d.Vendor, d.Model, d.Serial, d.PCI, d.Profile} {
			dst = appendText(dst, s)
		}
		dst = binary.AppendUvarint(dst, uint64(d.MemoryBytes))
	}
	return dst
}

// parseBatch reads a batch; its blocks share data.
func parseBatch(data []byte) (usage.Batch, error) {
	p := parser{rest: data}
	b := usage.Batch{
		Node: p.text(), Boot: p.text(), Run: p.uvarint(), Seq: p.uvarint(), PreviousRun: p.uvarint(), PreviousSeq: p.uvarint(),
		Minute: span.Minute(p.uvarint()), Spoken: span.SecondMask(p.uvarint()),
		Clock: usage.ClockEvidence{State: usage.ClockState(p.uvarint()), OffsetNanos: p.varint(), ErrorBoundNano: p.varint()},
	}
	for n := p.count(usage.MaxBlocks); n > 0 && !p.bad; n-- {
		b.Blocks = append(b.Blocks, p.bytes())
	}
	if len(p.rest) > 0 {
		b.Gaps = p.gaps()
	}
	if len(p.rest) > 0 {
		b.Topology = p.topology()
	}
	if err := p.done("batch"); err != nil {
		return usage.Batch{}, err
	}
	return b, b.Validate()
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendMark(dst []byte, m Mark) []byte {
	dst = appendText(dst, m.Node)
	for _, v := range [...]uint64{m.Sent.Run, m.Sent.Seq, m.Position, uint64(m.At)} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func (p *parser) mark() Mark {
	return Mark{Node: p.text(), Sent: p.name(), Position: p.uvarint(), At: span.Second(p.uvarint())}
}

func (p *parser) gaps() (all []usage.Gap) {
	for n := p.count(usage.MaxGaps); n > 0 && !p.bad; n-- {
		all = append(all, usage.Gap{
			Device: p.text(), From: span.Second(p.uvarint()), To: span.Second(p.uvarint()), Reason: usage.GapReason(p.uvarint()),
		})
	}
	return all
}

func (p *parser) topology() *usage.Topology {
	t := &usage.Topology{Source: p.text(), Driver: p.text()}
	for n := p.count(usage.MaxBlocks); n > 0 && !p.bad; n-- {
		t.Devices = append(t.Devices, usage.Device{
			Name: p.text(), Parent: p.text(), Vendor: p.text(), Model: p.text(), Serial: p.text(), PCI: p.text(), Profile: p.text(),
			MemoryBytes: int64(p.uvarint()),
		})
	}
	return t
}

func (p *parser) name() Name { return Name{Run: p.uvarint(), Seq: p.uvarint()} }

// parser takes a body apart; after the first fault everything reads as zero. A checksum has passed before, so a
// fault means another version of the format or a bug, never a torn write.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.rest)
	return advance(p, v, n)
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.rest)
	return advance(p, v, n)
}

// count reads how many follow, at most limit.
func (p *parser) count(limit uint64) uint64 {
	n := p.uvarint()
	p.bad = p.bad || n > limit
	return n
}

func advance[V int64 | uint64](p *parser, v V, n int) V {
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) bytes() []byte {
	n := p.uvarint()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	v := p.rest[:n:n]
	p.rest = p.rest[n:]
	return v
}

func (p *parser) text() string { return string(p.bytes()) }

func (p *parser) done(what string) error {
	if p.bad || len(p.rest) > 0 {
		return fmt.Errorf("the checksum of a %s record holds but its form is unknown; was it written by a newer version?", what)
	}
	return nil
}
