package spool

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const minute0 = span.Minute(29_000_000)

func batch(node string, run, seq uint64) usage.Batch {
	b := usage.Batch{
		Node: node, Boot: "boot", Run: run, Seq: seq, Minute: minute0 + span.Minute(seq/6),
		Spoken: 0x3ff << (10 * (seq % 6)), Clock: usage.ClockEvidence{State: usage.ClockScripted, OffsetNanos: -3},
	}
	if seq == 1 && run > 1 {
		b.PreviousRun, b.PreviousSeq = run-1, 9
	}
	for i := range 3 {
		b.Blocks = append(b.Blocks, []byte(strings.Repeat(fmt.Sprintf("%s/%d/%d.", node, i, seq), 5)))
	}
	return b
}

func open(t interface {
	Helper()
	Fatal(...any)
}, files Files, opts Options,
) *Spool {
	t.Helper()
	s, err := Open(files, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unsent(t interface {
	Helper()
	Fatal(...any)
}, s *Spool,
) []usage.Batch {
	t.Helper()
	all, err := s.Unsent(1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestAcceptedBatchesSurvive(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	want := []usage.Batch{batch("a", 1, 1), batch("b", 1, 1), batch("a", 1, 2)}
	before := d.syncs
	must(t, s.Append(want...))
	equal(t, 1, d.syncs-before)
	s = open(t, d.crash(0), Options{})
	equal(t, want, unsent(t, s))
	equal(t, Name{1, 2}, s.Last("a"))
	got, ok, err := s.Find("b", Name{1, 1})
	equal(t, true, ok && err == nil)
	equal(t, want[1], got)
	if err := s.Append(batch("a", 1, 2)); err == nil {
		t.Fatal("a repeated sequence was accepted")
	}
	signed := batch("a", 1, 3)
	signed.Seed, signed.Signature = make([]byte, usage.SeedBytes), make([]byte, usage.SignatureBytes)
	must(t, signed.Validate())
	if err := s.Append(signed); !errors.Is(err, errSigned) {
		t.Fatalf("a signed batch: %v", err)
	}
}

// TestOpenSyncsWhatADeadProcessWrote: a process that dies between its write and its sync leaves a batch that the next one reads
// and publishes. From then on no power loss may take it: the log would hold what the spool never held.
func TestOpenSyncsWhatADeadProcessWrote(t *testing.T) {
	d := newDisk()
	must(t, open(t, d, Options{}).Append(batch("a", 1, 1)))
	for _, c := range d.files {
		c.synced = nil // the write is there, its sync is not
	}
	d.durable = map[string]bool{}
	open(t, d, Options{})
	s := open(t, d.crash(0), Options{})
	equal(t, []usage.Batch{batch("a", 1, 1)}, unsent(t, s))
}

// TestTornTail cuts the newest segment at every byte and opens what is left: every batch whose record is whole is
// there, nothing else is, and the spool goes on.
func TestTornTail(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	must(t, s.Append(batch("a", 1, 1)))
	whole := len(d.files["00000001.spool"].live)
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 1}, Position: 7, At: 100}))
	marked := len(d.files["00000001.spool"].live)
	must(t, s.Append(batch("a", 1, 2), batch("b", 1, 1)))
	data := d.files["00000001.spool"].live
	second := s.entries[2].at
	for size := range len(data) + 1 {
		torn := newDisk()
		torn.files["00000001.spool"], torn.durable["00000001.spool"] = &content{live: slices.Clone(data[:size])}, true
		s := open(t, torn, Options{})
		want := []usage.Batch{}
		if size >= whole && size < marked {
			want = append(want, batch("a", 1, 1))
		}
		if int64(size) >= second {
			want = append(want, batch("a", 1, 2))
		}
		if size == len(data) {
			want = append(want, batch("b", 1, 1))
		}
		equal(t, want, append([]usage.Batch{}, unsent(t, s)...))
		boundary := slices.Contains([]int{0, int(s.segments[0].size)}, size) || size == whole || size == marked || int64(size) == second
		if !boundary && len(s.Notes()) != 1 {
			t.Fatalf("cut at %d of %d: notes %q", size, len(data), s.Notes())
		}
		must(t, s.Append(batch("a", 2, 1)))
		again := open(t, torn.crash(0), Options{})
		equal(t, append(want, batch("a", 2, 1)), unsent(t, again))
	}
}

func TestZeroFilledTailIsTorn(t *testing.T) {
	d := newDisk()
	must(t, open(t, d, Options{}).Append(batch("a", 1, 1)))
	f := d.files["00000001.spool"]
	f.live = append(f.live, make([]byte, 4096)...)
	s := open(t, d, Options{})
	equal(t, 1, len(unsent(t, s)))
	equal(t, 1, len(s.Notes()))
	must(t, s.Append(batch("a", 1, 2)))
	must(t, s.rotate()) // what stood behind the cut must not look like damage of an older segment
	equal(t, []usage.Batch{batch("a", 1, 1), batch("a", 1, 2)}, unsent(t, open(t, d.crash(0), Options{})))
}

func TestDamageInAnOlderSegmentIsNamed(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{SegmentBytes: 300})
	for seq := range uint64(4) {
		must(t, s.Append(batch("a", 1, seq+1)))
	}
	d.files["00000001.spool"].live[90] ^= 1
	if _, err := Open(d, Options{}); err == nil || !strings.Contains(err.Error(), "00000001.spool: at byte") {
		t.Fatalf("error is %v", err)
	}
	must(t, d.Remove("00000001.spool"))
	equal(t, Name{1, 4}, open(t, d, Options{}).Last("a"))
}

func TestFullDisk(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	must(t, s.Append(batch("a", 1, 1)))
	for room := range int64(60) {
		d.room = room
		err := s.Append(batch("a", 1, 2))
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
			t.Fatalf("error is %v", err)
		}
		equal(t, []usage.Batch{batch("a", 1, 1)}, unsent(t, s))
	}
	d.room = -1
	must(t, s.Append(batch("a", 1, 2)))
	equal(t, 2, len(unsent(t, open(t, d.crash(0), Options{}))))
}

func TestFailedSyncNeedsANewOpen(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	must(t, s.Append(batch("a", 1, 1)))
	d.syncFail = syscall.EIO
	if err := s.Append(batch("a", 1, 2)); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrBroken) {
		t.Fatalf("error is %v", err)
	}
	d.syncFail = nil
	if err := s.Append(batch("a", 1, 2)); !errors.Is(err, ErrBroken) {
		t.Fatalf("error is %v", err)
	}
	equal(t, []usage.Batch{batch("a", 1, 1)}, unsent(t, open(t, d.crash(0), Options{})))
}

func TestUndoThatFailsBreaks(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	d.room, d.cutFail = 5, syscall.EIO
	if err := s.Append(batch("a", 1, 1)); !errors.Is(err, ErrBroken) {
		t.Fatalf("error is %v", err)
	}
	if err := s.MarkSent(Mark{Node: "a"}); !errors.Is(err, ErrBroken) {
		t.Fatalf("error is %v", err)
	}
}

func TestAcknowledgedBatchesLeaveAfterTenMinutes(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{SegmentBytes: 300})
	for seq := range uint64(5) {
		must(t, s.Append(batch("a", 1, seq+1)))
	}
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1000}))
	files := len(d.files)
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1000 + KeepSeconds - 1}))
	equal(t, files, len(d.files))
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1000 + KeepSeconds}))
	if len(d.files) >= files {
		t.Fatalf("%d files before, %d after", files, len(d.files))
	}
	equal(t, []usage.Batch{batch("a", 1, 5)}, unsent(t, s))
	must(t, s.rotate())
	s = open(t, d.crash(0), Options{})
	equal(t, Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1600}, s.Sent("a"))
	equal(t, []usage.Batch{batch("a", 1, 5)}, unsent(t, s))
}

func TestRewindBringsBack(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	must(t, s.Append(batch("a", 1, 1), batch("b", 1, 1), batch("a", 1, 2), batch("a", 1, 3)))
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 3}, Position: 4, At: 5}, Mark{Node: "b", Sent: Name{1, 1}, Position: 2, At: 5}))
	equal(t, 0, len(unsent(t, s)))
	back, oldest := s.Rewind("a", Name{1, 1})
	equal(t, 2, back)
	equal(t, Name{1, 1}, oldest)
	equal(t, []usage.Batch{batch("a", 1, 2), batch("a", 1, 3)}, unsent(t, s))
	must(t, s.MarkSent(Mark{Node: "b", Sent: Name{1, 1}, Position: 2, At: 6})) // another node's mark says nothing of this one
	equal(t, 2, s.Stats().Unsent)
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 2}, Position: 3, At: 6}))
	equal(t, []usage.Batch{batch("a", 1, 3)}, unsent(t, open(t, d, Options{})))
}

func TestThinning(t *testing.T) {
	d := newDisk()
	opts := Options{MaxBytes: 4000, SegmentBytes: 800}
	s := open(t, d, opts)
	seq := uint64(0)
	for s.Stats().Thinned == 0 {
		seq++
		must(t, s.Append(batch("a", 1, seq)))
	}
	check := func(s *Spool) (gaps int) {
		all := unsent(t, s)
		equal(t, int(seq), len(all))
		for i, b := range all {
			want := batch("a", 1, uint64(i+1))
			if len(b.Blocks) == 0 {
				want = Gap(want)
				gaps++
			}
			equal(t, want, b)
			equal(t, gaps == i+1, len(b.Blocks) == 0) // gaps are the oldest
			must(t, b.Validate())
		}
		return gaps
	}
	gaps := check(s)
	equal(t, Stats{Bytes: s.bytes(), Limit: opts.MaxBytes, Unsent: int(seq), Thinned: gaps, Lost: 10 * gaps}, s.Stats())
	equal(t, gaps, check(open(t, d.crash(0), opts)))
	var err error
	for err == nil {
		if err = s.Append(batch("a", 1, seq+1)); err == nil {
			seq++
		}
		if s.bytes() > opts.MaxBytes {
			t.Fatalf("the spool has %d bytes", s.bytes())
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	check(s)
	check(open(t, d.crash(0), opts))
}

func TestThinningTakesAcknowledgedFirst(t *testing.T) {
	s := open(t, newDisk(), Options{MaxBytes: 4000, SegmentBytes: 800})
	for seq := range uint64(200) {
		must(t, s.Append(batch("a", 1, seq+1)))
		must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, seq + 1}, Position: seq + 1, At: 1}))
	}
	equal(t, 0, s.Stats().Thinned)
	if s.Stats().Bytes < 4000-2*800 {
		t.Fatalf("%d bytes are left: more was given up than had to be", s.Stats().Bytes)
	}
}

// TestAcknowledgedBatchesMakeRoomBesideUnsentOnes: what one node's log has is left out of a segment that another node's gaps hold.
func TestAcknowledgedBatchesMakeRoomBesideUnsentOnes(t *testing.T) {
	s := open(t, newDisk(), Options{MaxBytes: 4000, SegmentBytes: 800})
	var waiting []usage.Batch
	for seq := uint64(1); seq <= 30; seq++ {
		b := batch("b", 1, seq)
		b.Blocks = nil
		waiting = append(waiting, b)
		must(t, s.Append(batch("a", 1, seq), b))
		must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, seq}, Position: seq, At: 1}))
	}
	equal(t, waiting, unsent(t, s))
	equal(t, 0, s.Stats().Thinned)
}

// TestASegmentThatCannotBeRemovedBreaks: what the folder holds is unknown then.
func TestASegmentThatCannotBeRemovedBreaks(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{SegmentBytes: 300})
	for seq := range uint64(5) {
		must(t, s.Append(batch("a", 1, seq+1)))
	}
	must(t, s.MarkSent(Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1000}))
	d.goFail = syscall.EROFS
	if err := s.MarkSent(Mark{Node: "a", Sent: Name{1, 4}, Position: 4, At: 1000 + KeepSeconds}); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("error is %v", err)
	}
	if err := s.Append(batch("a", 1, 6)); !errors.Is(err, ErrBroken) {
		t.Fatalf("error is %v", err)
	}
	d.goFail = nil
	equal(t, []usage.Batch{batch("a", 1, 5)}, unsent(t, open(t, d.crash(0), Options{})))
}

// TestCrashes runs random operations and power losses: what was accepted and not acknowledged is always there, in order.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDisk()
		opts := Options{SegmentBytes: int64(rapid.IntRange(100, 1500).Draw(t, "segment"))}
		s := open(t, d, opts)
		var accepted []usage.Batch
		seq, sent := uint64(0), uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				var group []usage.Batch
				for range rapid.IntRange(1, 4).Draw(t, "group") {
					group = append(group, batch("a", 1, seq+uint64(len(group))+1))
				}
				d.room = int64(rapid.SampledFrom([]int{-1, -1, -1, 50, 400}).Draw(t, "room"))
				if err := s.Append(group...); err == nil {
					accepted, seq = append(accepted, group...), seq+uint64(len(group))
				} else if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				d.room = -1
			case 2:
				sent = rapid.Uint64Range(sent, seq).Draw(t, "sent")
				if err := s.MarkSent(Mark{Node: "a", Sent: Name{1, sent}, Position: sent, At: span.Second(sent * 200)}); err != nil {
					t.Fatal(err)
				}
			case 3:
				d = d.crash(rapid.IntRange(0, 900).Draw(t, "kept"))
				s = open(t, d, opts)
			}
			from := s.Sent("a").Sent.Seq // a lost mark repeats, it never skips
			if from > sent {
				t.Fatalf("marked %d, acknowledged %d", from, sent)
			}
			got := unsent(t, s)
			if !slices.EqualFunc(accepted[from:], got, func(a, b usage.Batch) bool { return reflect.DeepEqual(a, b) }) {
				t.Fatalf("accepted %d, marked %d, %d wait", len(accepted), from, len(got))
			}
		}
	})
}

func TestDirOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	files, err := Dir(path)
	must(t, err)
	s := open(t, files, Options{SegmentBytes: 300, MaxBytes: 2000})
	for seq := range uint64(12) { // rotates and thins
		must(t, s.Append(batch("a", 1, seq+1)))
	}
	if _, err := Dir(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second writer: %v", err)
	}
	want := unsent(t, s)
	must(t, s.Close())
	files, err = Dir(path)
	must(t, err)
	s = open(t, files, Options{})
	equal(t, want, unsent(t, s))
	must(t, s.Close())
}

// told is a run's first batch, with all that such a one may tell.
func told() usage.Batch {
	b := batch("a", 2, 1)
	from, end := b.Minute.Start(), b.Minute.End()
	b.Gaps = []usage.Gap{{From: from - 90, To: from, Reason: usage.GapKilled}, {Device: "g", From: from, To: end, Reason: usage.GapLost}}
	b.Topology = &usage.Topology{Source: "nvml", Driver: "580", Devices: []usage.Device{
		{Name: "g", Parent: "h", Vendor: "nvidia", Model: "m", Serial: "s", PCI: "p", Profile: "1g", MemoryBytes: 1 << 36},
	}}
	return b
}

// TestARunThatLeftNoBatchIsKnown: also after its segment is gone, and only until a batch comes behind it.
func TestARunThatLeftNoBatchIsKnown(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{})
	must(t, s.Begin("a", "boot 1", 500))
	d = d.crash(0)
	s = open(t, d, Options{})
	equal(t, End{Began: Began{"boot 1", 500}}, s.End("a"))
	size := s.Stats().Bytes
	must(t, s.Begin("a", "boot 2", 700)) // nobody knows what became of it from 500 on
	equal(t, size, s.Stats().Bytes)
	must(t, s.Stop())
	must(t, s.rotate())
	must(t, errors.Join(d.Remove("00000001.spool"), d.Sync()))
	d = d.crash(0)
	s = open(t, d, Options{})
	equal(t, End{Began: Began{"boot 1", 500}}, s.End("a"))
	must(t, s.Begin("a", "boot 2", 300)) // the clock was set back
	equal(t, End{Began: Began{"boot 2", 300}}, open(t, d.crash(0), Options{}).End("a"))
	b := batch("a", 1, 1)
	must(t, s.Append(b))
	equal(t, End{Boot: "boot", At: b.Last() + 1}, open(t, d.crash(0), Options{}).End("a"))
	must(t, s.Begin("a", "boot 3", b.Last()+90))
	equal(t, End{Boot: "boot", At: b.Last() + 1, Began: Began{"boot 3", b.Last() + 90}}, open(t, d.crash(0), Options{}).End("a"))
	must(t, s.Stop()) // of another node's run: this one began and left nothing
	equal(t, false, s.End("a").Stopped)
}

// TestADiskThatIsFullWhileThinning: what could not be written beside a segment has changed nothing, so the spool goes on when there is
// room again.
func TestADiskThatIsFullWhileThinning(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{MaxBytes: 4000, SegmentBytes: 800})
	group := []usage.Batch{}
	for len(group) < 8 {
		group = append(group, batch("a", 1, 100+uint64(len(group))))
	}
	for seq := uint64(1); s.bytes() < 3200; seq++ {
		must(t, s.Append(batch("a", 1, seq)))
	}
	waiting := unsent(t, s)
	for room := int64(0); room < 200; room += 9 {
		d.room = room
		if err := s.Append(group...); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrBroken) {
			t.Fatalf("error is %v", err)
		}
		equal(t, waiting, unsent(t, s))
		equal(t, waiting, unsent(t, open(t, d.crash(0), Options{})))
	}
	d.room = -1
	must(t, s.Append(group...))
	equal(t, len(waiting)+len(group), len(unsent(t, open(t, d.crash(0), Options{}))))
	if s.Stats().Thinned == 0 {
		t.Fatal("nothing was thinned")
	}
}

// TestAGroupThatNeverFitsTakesNothingAway: nothing is thinned for it.
func TestAGroupThatNeverFitsTakesNothingAway(t *testing.T) {
	d := newDisk()
	s := open(t, d, Options{MaxBytes: 4000, SegmentBytes: 800})
	must(t, s.Append(batch("a", 1, 1)))
	var group []usage.Batch
	for seq := range uint64(60) {
		group = append(group, batch("a", 1, seq+2))
	}
	if err := s.Append(group...); !errors.Is(err, ErrFull) {
		t.Fatalf("error is %v", err)
	}
	equal(t, []usage.Batch{batch("a", 1, 1)}, unsent(t, s))
	equal(t, 0, s.Stats().Thinned)
}
