package spool

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// KeepSeconds is how long an acknowledged batch stays, in sample time after the acknowledgement.
const KeepSeconds = 600

// Name is a batch's place among those of its node: (run, sequence), in this order.
type Name struct{ Run, Seq uint64 }

// Compare orders names.
func (n Name) Compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Run, o.Run), cmp.Compare(n.Seq, o.Seq))
}

func (n Name) String() string { return fmt.Sprintf("run %d sequence %d", n.Run, n.Seq) }

// Mark says that the log holds a node's batches up to a name: Position is that batch's place in the stream, At the
// sample time of the acknowledgement.
type Mark struct {
	Node     string
	Sent     Name
	Position uint64
	At       span.Second
}

// Options bound the spool.
type Options struct {
	MaxBytes     int64 // of all segments together; 256 MiB when 0
	SegmentBytes int64 // at which a new segment is begun; a sixteenth of MaxBytes, at most 8 MiB, when 0
}

// Stats counts for metrics and alarms, since Open.
type Stats struct {
	Bytes   int64 // on disk now
	Limit   int64 // of them
	Unsent  int   // batches that wait now
	Thinned int   // batches turned into gap records
	Lost    int   // seconds that these no longer speak for
}

// Errors of Append.
var (
	ErrFull   = errors.New("the spool is full and everything in it is thinned; the log has not answered for too long, or its limit is too small")
	ErrBroken = errors.New("the spool's disk failed before and what it holds is unknown; close it and open it again")
)

// entry is one batch on disk. at is the place of its record.
type entry struct {
	seg  *segment
	at   int64
	size int
	node *node
	name Name
	sent bool
	thin bool // a gap record: there is nothing left to thin
}

// node is what the spool knows of one writer.
type node struct {
	name string
	last Name // newest batch accepted
	end  End
	mark Mark // newest acknowledged
}

// Spool may be used by several goroutines: one that appends and one that publishes do not wait for each other's disk and
// network, because no call of it leaves the disk. While a sync hangs, every other call waits for it.
type Spool struct {
	turn     chan struct{} // holds one token; who took it may touch the rest
	files    Files
	opts     Options
	segments []*segment // oldest first; the last one is written
	nodes    map[string]*node
	order    []*node // in order of appearance: the state record has one form
	entries  []entry // oldest first
	next     int     // nothing before it is unsent
	unsent   int
	scratch  []byte
	stats    Stats
	notes    []string
	dirty    bool // the newest segment has marks that are not synced
	broken   bool
}

// enter waits for the spool and gives the way to leave it. It is a channel and no mutex, so that a test in virtual time sees
// who waits for a disk that hangs.
func (s *Spool) enter() (leave func()) {
	<-s.turn
	return s.leave
}

func (s *Spool) leave() { s.turn <- struct{}{} }

// Notes are what Open found and repaired, for a person.
func (s *Spool) Notes() []string { return s.notes }

// Stats reads the counters.
func (s *Spool) Stats() Stats {
	defer s.enter()()
	st := s.stats
	st.Bytes, st.Limit, st.Unsent = s.bytes(), s.opts.MaxBytes, s.unsent
	return st
}

func (s *Spool) bytes() (sum int64) {
	for _, g := range s.segments {
		sum += g.size
	}
	return sum
}

// Last is the newest batch accepted of a node; zero when there is none.
func (s *Spool) Last(name string) Name {
	defer s.enter()()
	return s.last(name)
}

func (s *Spool) last(name string) Name {
	if n := s.nodes[name]; n != nil {
		return n.last
	}
	return Name{}
}

// Sent is the newest mark of a node; zero when there is none.
func (s *Spool) Sent(name string) Mark {
	defer s.enter()()
	if n := s.nodes[name]; n != nil {
		return n.mark
	}
	return Mark{Node: name}
}

func (s *Spool) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{name: name, mark: Mark{Node: name}}
		s.nodes[name] = n
		s.order = append(s.order, n)
	}
	return n
}

// Append accepts batches: it writes and syncs them as one group. Each must come after the newest of its node. After
// an error none was accepted and everything accepted earlier is unharmed; ErrFull and a full disk may be retried once
// there is room, ErrBroken needs a new Open.
func (s *Spool) Append(batches ...usage.Batch) error {
	defer s.enter()()
	if s.broken {
		return fmt.Errorf("append %d batches: %w", len(batches), ErrBroken)
	}
	data := s.scratch[:0]
	group := make([]entry, 0, len(batches))
	newest := map[string]Name{}
	for i := range batches {
		b := &batches[i]
		name := Name{b.Run, b.Seq}
		last, ok := newest[b.Node]
		if !ok {
			last = s.last(b.Node)
		}
		err := b.Validate()
		if b.Signature != nil {
			err = errSigned
		}
		if err != nil {
			return fmt.Errorf("append batch %s of node %s: %w", name, b.Node, err)
		}
		if name.Compare(last) <= 0 {
			return fmt.Errorf("append batch %s of node %s: the spool already ends at %s", name, b.Node, last)
		}
		newest[b.Node] = name
		at := len(data)
		data = appendRecord(data, kindBatch, func(dst []byte) []byte { return appendBatch(dst, b) })
		group = append(group, entry{at: int64(at), size: len(data) - at, name: name, thin: len(b.Blocks) == 0})
	}
	s.scratch = data
	seg, err := s.room(int64(len(data)))
	if err == nil {
		err = s.write(seg, data, true)
	}
	if err != nil {
		return fmt.Errorf("append %d batches to the spool: %w", len(batches), err)
	}
	for i := range group {
		e := &group[i]
		e.seg, e.node = seg, s.node(batches[i].Node)
		e.at += seg.size - int64(len(data))
		e.node.last, e.node.end = e.name, endOf(&batches[i])
	}
	s.entries = append(s.entries, group...)
	s.unsent += len(group)
	return nil
}

// write puts data at the segment's end. What cannot be written whole is undone.
func (s *Spool) write(seg *segment, data []byte, sync bool) error {
	if _, err := seg.file.WriteAt(data, seg.size); err != nil {
		if undo := seg.file.Truncate(seg.size); undo != nil {
			s.broken = true
			return errors.Join(err, fmt.Errorf("undo it: %w", undo), ErrBroken)
		}
		return fmt.Errorf("%s: %w; nothing of it was accepted, make room on the disk", seg.name, err)
	}
	s.dirty = true
	if sync {
		if err := s.sync(seg); err != nil {
			return err
		}
	}
	seg.size += int64(len(data))
	return nil
}

func (s *Spool) sync(seg *segment) error {
	if err := seg.file.Sync(); err != nil {
		s.broken = true // a later sync may answer nil although these pages were dropped
		return errors.Join(fmt.Errorf("sync %s: %w", seg.name, err), ErrBroken)
	}
	s.dirty = false
	return nil
}

// Unsent reads the oldest batches that wait, in order, up to max of them and about maxBytes.
func (s *Spool) Unsent(max, maxBytes int) ([]usage.Batch, error) {
	defer s.enter()()
	for s.next < len(s.entries) && s.entries[s.next].sent {
		s.next++
	}
	var waiting []*entry
	for i := s.next; i < len(s.entries) && len(waiting) < max && maxBytes > 0; i++ {
		if e := &s.entries[i]; !e.sent {
			waiting = append(waiting, e)
			maxBytes -= e.size
		}
	}
	out := make([]usage.Batch, 0, len(waiting))
	for len(waiting) > 0 {
		n := 1 // neighbours on disk are read at once
		for n < len(waiting) && waiting[n].seg == waiting[0].seg && waiting[n].at-waiting[n-1].end() < neighbourBytes {
			n++
		}
		var err error
		if out, err = s.read(out, waiting[:n]); err != nil {
			return nil, err
		}
		waiting = waiting[n:]
	}
	return out, nil
}

const neighbourBytes = 4096

func (e *entry) end() int64 { return e.at + int64(e.size) }

// read appends the batches of entries that lie close together in one segment.
func (s *Spool) read(out []usage.Batch, entries []*entry) ([]usage.Batch, error) {
	first := entries[0]
	data := make([]byte, entries[len(entries)-1].end()-first.at)
	if _, err := first.seg.file.ReadAt(data, first.at); err != nil {
		return nil, fmt.Errorf("read batch %s of node %s from %s: %w", first.name, first.node.name, first.seg.name, err)
	}
	for _, e := range entries {
		_, body, _, err := nextRecord(data[e.at-first.at:])
		if err != nil {
			return nil, fmt.Errorf("read batch %s of node %s from %s at %d: %w", e.name, e.node.name, e.seg.name, e.at, err)
		}
		b, err := parseBatch(body)
		if err != nil {
			return nil, fmt.Errorf("read batch %s of node %s from %s at %d: %w", e.name, e.node.name, e.seg.name, e.at, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// Find reads a batch that is still here.
func (s *Spool) Find(name string, at Name) (usage.Batch, bool, error) {
	defer s.enter()()
	for i := len(s.entries) - 1; i >= 0; i-- {
		if e := &s.entries[i]; e.node.name == name && e.name == at {
			found, err := s.read(nil, []*entry{e})
			if err != nil {
				return usage.Batch{}, false, err
			}
			return found[0], true, nil
		}
	}
	return usage.Batch{}, false, nil
}

// MarkSent records what the log acknowledged and lets go of segments whose time has come: all their batches
// acknowledged, and KeepSeconds of sample time passed since. The marks are on disk with the next Append at the latest.
func (s *Spool) MarkSent(marks ...Mark) error {
	defer s.enter()()
	if s.broken {
		return fmt.Errorf("mark batches sent: %w", ErrBroken)
	}
	var now span.Second
	data := s.scratch[:0]
	for _, m := range marks {
		now = max(now, m.At)
		data = appendRecord(data, kindMark, func(dst []byte) []byte { return appendMark(dst, m) })
	}
	s.scratch = data
	if err := s.write(s.segments[len(s.segments)-1], data, false); err != nil {
		return fmt.Errorf("mark batches sent: %w", err)
	}
	s.applyMarks(marks)
	return s.release(now, false)
}

// applyMarks sets entries sent in one pass.
func (s *Spool) applyMarks(marks []Mark) {
	for _, m := range marks {
		s.node(m.Node).mark = m
	}
	for i := s.next; i < len(s.entries); i++ {
		if e := &s.entries[i]; !e.sent && e.name.Compare(e.node.mark.Sent) <= 0 {
			e.sent = true
			s.unsent--
			e.seg.acked = max(e.seg.acked, e.node.mark.At)
		}
	}
}

// Rewind makes a node's batches after a name wait again: the log lost what it had acknowledged. It returns how many
// it brings back, and the oldest batch of the node that is still here, zero when none is.
func (s *Spool) Rewind(name string, after Name) (back int, oldest Name) {
	defer s.enter()()
	n := s.node(name)
	n.mark.Sent, n.mark.Position = after, 0
	for i := range s.entries {
		e := &s.entries[i]
		if e.node != n {
			continue
		}
		if oldest == (Name{}) {
			oldest = e.name
		}
		if e.sent && e.name.Compare(after) > 0 {
			e.sent = false
			s.unsent++
			back++
			s.next = min(s.next, i)
		}
	}
	return back, oldest
}

// Close gives the files back. What was accepted is already safe.
func (s *Spool) Close() error {
	defer s.enter()()
	var err error
	for _, g := range s.segments {
		err = errors.Join(err, g.file.Close())
	}
	return errors.Join(err, s.files.Close())
}
