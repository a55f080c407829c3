package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const (
	suffix         = ".spool"
	temporary      = ".tmp"
	defaultBytes   = 256 << 20
	defaultSegment = 8 << 20
)

// segment is one file. Only the newest is written.
type segment struct {
	number uint64
	name   string
	file   File
	size   int64
	acked  span.Second // newest acknowledgement of a batch in it
}

func newSegment(number uint64) *segment {
	return &segment{number: number, name: fmt.Sprintf("%08d%s", number, suffix)}
}

// Open reads what is in the folder. A torn end of the newest segment is cut off and noted; damage elsewhere is an
// error that names the file.
func Open(files Files, opts Options) (*Spool, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultBytes
	}
	if opts.SegmentBytes == 0 {
		opts.SegmentBytes = min(opts.MaxBytes/16, defaultSegment)
	}
	s := &Spool{turn: make(chan struct{}, 1), files: files, opts: opts, nodes: map[string]*node{}}
	s.leave()
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open spool: %w", err), s.Close())
	}
	return s, nil
}

func (s *Spool) load() error {
	numbers, err := s.list()
	if err != nil {
		return err
	}
	for i, number := range numbers {
		seg := newSegment(number)
		if seg.file, err = s.files.Open(seg.name); err != nil {
			return err
		}
		s.segments = append(s.segments, seg)
		if err := s.loadSegment(seg, i == len(numbers)-1); err != nil {
			return fmt.Errorf("%s: %w", seg.name, err)
		}
	}
	for i := range s.entries {
		e := &s.entries[i]
		e.sent = e.name.Compare(e.node.mark.Sent) <= 0
		if e.sent {
			e.seg.acked = e.node.mark.At
		} else {
			s.unsent++
		}
	}
	if len(s.segments) == 0 {
		return s.begin(newSegment(1))
	}
	last := s.segments[len(s.segments)-1]
	if last.size == 0 {
		s.segments = s.segments[:len(s.segments)-1]
		return errors.Join(last.file.Close(), s.begin(last))
	}
	// A process that died between a write and its sync leaves what a power loss still takes: it is not published before.
	return errors.Join(last.file.Sync(), s.files.Sync())
}

// list returns the segments' numbers in order and clears what a crash in mid-thinning left.
func (s *Spool) list() ([]uint64, error) {
	names, err := s.files.List()
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if strings.HasSuffix(name, temporary) {
			if err := s.files.Remove(name); err != nil {
				return nil, err
			}
		}
		if base, ok := strings.CutSuffix(name, suffix); ok {
			number, err := strconv.ParseUint(base, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s is not a segment's name; move it away", name)
			}
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (s *Spool) loadSegment(seg *segment, newest bool) error {
	data, err := readAll(seg.file)
	if err != nil {
		return err
	}
	for seg.size < int64(len(data)) {
		kind, body, size, err := nextRecord(data[seg.size:])
		if err != nil && newest {
			return s.cut(seg, int64(len(data))-seg.size)
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w; move the file away to go on: what it held unsent is then missing from the log", seg.size, err)
		}
		if err := s.loadRecord(seg, kind, body, size); err != nil {
			return fmt.Errorf("at byte %d: %w", seg.size, err)
		}
		seg.size += int64(size)
	}
	return nil
}

// cut drops a torn write. Nothing accepted can be in it: it was never synced, or a later record would follow it.
func (s *Spool) cut(seg *segment, torn int64) error {
	s.notes = append(s.notes, fmt.Sprintf("%s: cut %d torn bytes off at byte %d", seg.name, torn, seg.size))
	return errors.Join(seg.file.Truncate(seg.size), seg.file.Sync())
}

func (s *Spool) loadRecord(seg *segment, k kind, body []byte, size int) error {
	switch k {
	case kindState:
		p := parser{rest: body}
		for n := p.uvarint(); n > 0 && !p.bad; n-- {
			last := p.name()
			m := p.mark()
			node := s.node(m.Node)
			node.last, node.mark = last, m
		}
		if len(p.rest) > 0 {
			p.ends(s)
		}
		for len(p.rest) > 0 {
			p.began(s)
		}
		return p.done("state")
	case kindStop:
		p := parser{rest: body}
		p.ends(s)
		return p.done("stop")
	case kindBegin:
		p := parser{rest: body}
		p.began(s)
		return p.done("beginning")
	case kindMark:
		p := parser{rest: body}
		m := p.mark()
		s.node(m.Node).mark = m
		return p.done("mark")
	case kindBatch:
		b, err := parseBatch(body)
		if err != nil {
			return err
		}
		e := entry{
			seg: seg, at: seg.size, size: size, node: s.node(b.Node), name: Name{b.Run, b.Seq},
			thin: len(b.Blocks) == 0,
		}
		e.node.last, e.node.end = e.name, endOf(&b)
		s.entries = append(s.entries, e)
		return nil
	default:
		return fmt.Errorf("record kind %d is unknown; was it written by a newer version?", k)
	}
}

func readAll(f File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if size == 0 {
		return data, nil
	}
	_, err = f.ReadAt(data, 0)
	return data, err
}

// begin creates a segment and makes it the one that is written. Until it is whole nothing else changes.
func (s *Spool) begin(seg *segment) error {
	state := appendRecord(nil, kindState, s.appendState)
	var err error
	if seg.file, err = s.files.Open(seg.name); err != nil {
		return err
	}
	_, err = seg.file.WriteAt(state, 0)
	if err == nil {
		err = errors.Join(seg.file.Sync(), s.files.Sync())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("begin %s: %w", seg.name, err), seg.file.Close(), s.files.Remove(seg.name))
	}
	seg.size = int64(len(state))
	s.segments = append(s.segments, seg)
	return nil
}

func (s *Spool) appendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.order)))
	for _, n := range s.order {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, n.last.Run), n.last.Seq)
		dst = appendMark(dst, n.mark)
	}
	return s.appendAllBegan(s.appendEnds(dst))
}

// rotate syncs the segment that is written, whose marks may not be on disk yet, and begins the next.
func (s *Spool) rotate() error {
	last := s.segments[len(s.segments)-1]
	if err := s.sync(last); err != nil {
		return err
	}
	return s.begin(newSegment(last.number + 1))
}

// room finds or makes place for n bytes and the state of one more segment: see the package comment, Thinning.
func (s *Spool) room(n int64) (*segment, error) {
	if n+2*s.stateBytes() > s.opts.MaxBytes {
		return nil, ErrFull // nothing that is given up makes room for it
	}
	for s.bytes()+n+s.stateBytes() > s.opts.MaxBytes {
		before := len(s.segments)
		if err := s.release(0, true); err != nil {
			return nil, err
		}
		if len(s.segments) < before {
			continue
		}
		done, err := s.thinOldest()
		if err != nil {
			return nil, err
		}
		if !done {
			return nil, ErrFull
		}
	}
	if last := s.segments[len(s.segments)-1]; last.size+n > s.opts.SegmentBytes && s.holds(last) {
		if err := s.rotate(); err != nil {
			return nil, err
		}
	}
	return s.segments[len(s.segments)-1], nil
}

// stateBytes bounds the record that begins a segment.
func (s *Spool) stateBytes() int64 {
	const numbers = 8 * binary.MaxVarintLen64
	sum := int64(headerBytes + 1 + binary.MaxVarintLen64)
	for _, n := range s.order {
		sum += int64(3*len(n.name) + len(n.end.Boot) + len(n.end.Began.Boot) + numbers)
	}
	return sum
}

// holds tells whether any batch lies in the segment.
func (s *Spool) holds(seg *segment) bool {
	return len(s.entries) > 0 && s.entries[len(s.entries)-1].seg == seg
}

// settleMarks stands before every removal of acknowledged batches: a power loss must not take the mark and leave no
// batch to know it by.
func (s *Spool) settleMarks() error {
	if !s.dirty {
		return nil
	}
	return s.sync(s.segments[len(s.segments)-1])
}

// release removes segments from the oldest end whose batches are all acknowledged: those whose time has come, or
// one of any age when pressed. The one that is written stays.
func (s *Spool) release(now span.Second, pressed bool) error {
	for len(s.segments) > 1 {
		oldest := s.segments[0]
		n := 0
		for n < len(s.entries) && s.entries[n].seg == oldest && s.entries[n].sent {
			n++
		}
		waits := n < len(s.entries) && s.entries[n].seg == oldest
		if waits || !pressed && oldest.acked+KeepSeconds > now {
			return nil
		}
		if err := s.settleMarks(); err != nil {
			return err
		}
		if err := errors.Join(oldest.file.Close(), s.files.Remove(oldest.name)); err != nil {
			s.broken = true
			return fmt.Errorf("remove %s: %w", oldest.name, err)
		}
		s.segments = s.segments[1:]
		s.entries = s.entries[n:]
		s.next = max(s.next-n, 0)
		if pressed {
			break
		}
	}
	return nil
}

// thinOldest rewrites the oldest segment in which there is something to gain; false when there is none.
func (s *Spool) thinOldest() (bool, error) {
	i := slices.IndexFunc(s.entries, func(e entry) bool { return e.sent || !e.thin })
	if i < 0 {
		return false, nil
	}
	seg := s.entries[i].seg
	if seg == s.segments[len(s.segments)-1] {
		if err := s.rotate(); err != nil {
			return false, err
		}
	}
	if err := s.settleMarks(); err != nil {
		return false, err
	}
	if err := s.thin(seg); err != nil {
		return false, fmt.Errorf("thin %s: %w", seg.name, err)
	}
	return true, nil
}

// breaks ends the use of the spool until it is opened again.
func (s *Spool) breaks(err error) error {
	s.broken = true
	return errors.Join(err, ErrBroken)
}

func (s *Spool) thin(seg *segment) error {
	data, err := readAll(seg.file)
	if err != nil {
		return s.breaks(err)
	}
	first := slices.IndexFunc(s.entries, func(e entry) bool { return e.seg == seg })
	at, kept := first, s.entries[:first:first]
	var out []byte
	lost := Stats{}
	for len(data) > 0 {
		k, body, size, err := nextRecord(data)
		if err != nil {
			return s.breaks(err)
		}
		record := data[:size]
		data = data[size:]
		if k == kindBatch {
			e := s.entries[at]
			at++
			if e.sent {
				continue
			}
			if !e.thin {
				if record, err = gap(body, &lost); err != nil {
					return s.breaks(err)
				}
			}
			e.thin, e.at, e.size = true, int64(len(out)), len(record)
			kept = append(kept, e)
		}
		out = append(out, record...)
	}
	name, err := s.draft(seg, out)
	if err != nil {
		return err // nothing has changed: the disk may be full, and have room later
	}
	if err := s.replace(seg, name, int64(len(out))); err != nil {
		return s.breaks(err)
	}
	s.entries = append(kept, s.entries[at:]...)
	s.next = 0
	s.stats.Thinned += lost.Thinned
	s.stats.Lost += lost.Lost
	return nil
}

// gap turns a batch's body into a gap record.
func gap(body []byte, lost *Stats) ([]byte, error) {
	b, err := parseBatch(body)
	if err != nil {
		return nil, err
	}
	lost.Thinned++
	lost.Lost += b.Spoken.Count()
	g := Gap(b)
	return appendRecord(nil, kindBatch, func(dst []byte) []byte { return appendBatch(dst, &g) }), nil
}

// Gap is what is left of a batch when the spool had no room for it: its name, its topology, its gaps, and one more for what it
// spoke for and nobody knows now.
func Gap(b usage.Batch) usage.Batch {
	unknown := b.Spoken
	for _, g := range b.Gaps {
		if g.Device == "" {
			unknown.Each(func(i int) {
				if at := b.Minute.Start() + span.Second(i); g.From <= at && at < g.To {
					unknown &^= span.Bit(i)
				}
			})
		}
	}
	var thinned []usage.Gap
	unknown.Each(func(i int) {
		at := b.Minute.Start() + span.Second(i)
		thinned = usage.AppendGap(thinned, usage.Gap{From: at, To: at + 1, Reason: usage.GapThinned})
	})
	b.Gaps = slices.Concat(b.Gaps, thinned)
	usage.SortGaps(b.Gaps)
	b.Blocks, b.Spoken = nil, span.Bit(b.Spoken.First())
	return b
}

// draft writes a segment's new content beside it.
func (s *Spool) draft(seg *segment, data []byte) (name string, err error) {
	name = seg.name + temporary
	f, err := s.files.Open(name)
	if err != nil {
		return "", err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, s.files.Remove(name))
	}
	return name, nil
}

// replace puts a draft in the segment's place: whole or not at all, also when the power fails.
func (s *Spool) replace(seg *segment, name string, size int64) error {
	err := errors.Join(seg.file.Close(), s.files.Rename(name, seg.name), s.files.Sync())
	if err == nil {
		seg.file, err = s.files.Open(seg.name)
	}
	seg.size = size
	return err
}
