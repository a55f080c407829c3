package spool

import (
	"slices"
	"strings"
	"testing"
)

func FuzzOpen(f *testing.F) {
	d := newDisk()
	s, err := Open(d, Options{})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Append(batch("a", 1, 1)); err != nil {
		f.Fatal(err)
	}
	if err := s.Append(told()); err != nil {
		f.Fatal(err)
	}
	if err := s.MarkSent(Mark{Node: "a", Sent: Name{1, 1}, Position: 7, At: minute0.End()}); err != nil {
		f.Fatal(err)
	}
	f.Add(d.files["00000001.spool"].live)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDisk()
		d.files["00000001.spool"] = &content{live: data}
		if s, err := Open(d, Options{}); err == nil {
			must(t, s.Append(batch("zz", 1<<60, 1)))
		}
	})
}

// TestABatchThatIsNoneIsNotOpened: its checksum holds, so it was written so; the log would refuse it for ever.
func TestABatchThatIsNoneIsNotOpened(t *testing.T) {
	bad := batch("a", 1, 1)
	bad.Spoken = 0
	d := newDisk()
	d.files["00000001.spool"] = &content{live: appendRecord(nil, kindBatch, func(dst []byte) []byte { return appendBatch(dst, &bad) })}
	if _, err := Open(d, Options{}); err == nil || !strings.Contains(err.Error(), "00000001.spool: at byte 0: spoken mask") {
		t.Fatalf("error is %v", err)
	}
}

// FuzzRecord puts a body behind a checksum that holds, where FuzzOpen hardly ever comes: another version of gpuhour, or a bug, wrote it.
// Whatever it says, an opened spool takes the next batch, gives it back, and opens again as it was.
func FuzzRecord(f *testing.F) {
	plain, first := batch("a", 2, 1), told()
	f.Add(byte(kindBatch), appendBatch(nil, &plain))
	f.Add(byte(kindBatch), appendBatch(nil, &first))
	first.Topology = nil
	f.Add(byte(kindBatch), appendBatch(nil, &first))
	f.Add(byte(kindMark), appendMark(nil, Mark{Node: "a", Sent: Name{1, 1}, Position: 7, At: minute0.End()}))
	f.Add(byte(kindState), []byte{0})
	f.Add(byte(kindStop), []byte("\x01a"))
	before := newDisk()
	s, err := Open(before, Options{})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Append(batch("a", 1, 1)); err != nil {
		f.Fatal(err)
	}
	segment := before.files["00000001.spool"].live
	f.Fuzz(func(t *testing.T, k byte, body []byte) {
		d := newDisk()
		data := appendRecord(slices.Clone(segment), kind(k), func(dst []byte) []byte { return append(dst, body...) })
		d.files["00000001.spool"] = &content{live: data}
		s, err := Open(d, Options{})
		if err != nil {
			return
		}
		next := batch("zz", 1<<60, 1)
		next.PreviousRun, next.PreviousSeq = 0, 0
		if last := s.Last("zz"); last != (Name{}) {
			return // the body was of this node
		}
		must(t, s.Append(next))
		want := unsent(t, s)
		equal(t, next, want[len(want)-1])
		must(t, s.Close())
		s = open(t, d, Options{})
		equal(t, want, unsent(t, s))
	})
}
