package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
)

// fault is what happens to one publication on its way.
type fault int

const (
	none        fault = iota
	lostRequest       // it never arrives
	lostAnswer        // it is settled, but nobody hears how
	late              // it arrives just before the next request
	noLast            // it is settled unheard, and the next Last fails too
)

var errLast = errors.New("no leader")

// faulty injects its faults, one a publication, and none when they are used up.
type faulty struct {
	bus.Bus
	faults   []fault
	lastFail bool
	held     func()
}

func (f *faulty) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	return f.inject(func() (uint64, error) { return f.Bus.Publish(ctx, p) })
}

func (f *faulty) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	return f.inject(func() (uint64, error) { return f.Bus.PublishBatch(ctx, ps) })
}

func (f *faulty) Last(ctx context.Context, subject string) (bus.Message, error) {
	if f.lastFail {
		f.lastFail = false
		return bus.Message{}, errLast
	}
	return f.Bus.Last(ctx, subject)
}

func (f *faulty) inject(publish func() (uint64, error)) (uint64, error) {
	if f.held != nil {
		f.held()
		f.held = nil
	}
	if len(f.faults) == 0 {
		return publish()
	}
	next := f.faults[0]
	f.faults = f.faults[1:]
	switch next {
	case none:
		return publish()
	case late:
		f.held = func() { _, _ = publish() } // its outcome is what stays unheard
	case noLast, lostAnswer:
		_, _ = publish()
		f.lastFail = next == noLast
	}
	return 0, bus.ErrAmbiguous
}

func claimOf(content string) bus.Publication {
	return bus.Publication{
		Subject: "gh.fact.closing.c1", Header: map[string]string{bus.HeaderID: "c1"},
		Data: []byte(content), ExpectLast: new(uint64(0)),
	}
}

func TestClaimSettlesFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		before []string
		faults []fault
		want   error
	}{
		{"no fault", nil, nil, nil},
		{"adopts an earlier one", []string{"mine"}, nil, nil},
		{"adopts after a lost answer", nil, []fault{lostAnswer}, nil},
		{"publishes again after a lost request", nil, []fault{lostRequest, lostRequest}, nil},
		{"adopts a late one", nil, []fault{late}, nil},
		{"adopts a late one unheard", nil, []fault{late, lostAnswer}, nil},
		{"adopts although the answer is lost again", []string{"mine"}, []fault{lostAnswer}, nil},
		{"gives up unheard", nil, []fault{lostRequest, lostRequest, lostRequest}, bus.ErrAmbiguous},
		{"cannot look", nil, []fault{noLast}, bus.ErrAmbiguous},
		{"names why it cannot look", nil, []fault{noLast}, errLast},
		{"is refused", []string{"other"}, nil, bus.ErrConflict},
		{"is refused unheard", []string{"other"}, []fault{lostAnswer}, bus.ErrConflict},
		{"is refused before it arrives", []string{"other"}, []fault{lostRequest}, bus.ErrConflict},
		{"adopts the last of several", []string{"other", "mine"}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &faulty{Bus: membus.New(time.Now)}
			for i, content := range test.before {
				p := claimOf(content)
				p.ExpectLast = nil
				if seq, err := b.Publish(t.Context(), p); err != nil || seq != uint64(i+1) {
					t.Fatal(seq, err)
				}
			}
			b.faults = test.faults
			seq, err := bus.Claim(t.Context(), b, claimOf("mine"))
			if !errors.Is(err, test.want) {
				t.Fatalf("Claim = %d, %v; want %v", seq, err, test.want)
			}
			last, lastErr := b.Last(t.Context(), "gh.fact.closing.c1")
			if err == nil && (lastErr != nil || last.Seq != seq || string(last.Data) != "mine") {
				t.Fatalf("claimed %d, but the log ends with %v, %v", seq, last, lastErr)
			}
		})
	}
}

func TestClaimNeedsAnExpectation(t *testing.T) {
	b := membus.New(time.Now)
	p := claimOf("mine")
	p.ExpectLast = nil
	if _, err := bus.Claim(t.Context(), b, p); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("Claim: %v; want %v", err, bus.ErrInvalid)
	}
	if _, err := bus.ClaimBatch(t.Context(), b, nil); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("ClaimBatch: %v; want %v", err, bus.ErrInvalid)
	}
}

// invoice is a closing and a number of the series, and a message that expects nothing.
func invoice(closing, number string, numberLast uint64) []bus.Publication {
	return []bus.Publication{
		{Subject: "gh.fact.note.n", Data: []byte(closing)},
		{Subject: "gh.fact.closing." + closing, Header: map[string]string{bus.HeaderID: closing}, Data: []byte(closing), ExpectLast: new(uint64(0))},
		{Subject: "gh.fact.invoice.series", Header: map[string]string{bus.HeaderID: number}, Data: []byte(closing + number), ExpectLast: &numberLast},
	}
}

func TestClaimBatchAdoptsOnlyTheWholeBatch(t *testing.T) {
	b := membus.New(time.Now)
	for i, ps := range [][]bus.Publication{invoice("a", "1", 0), invoice("b", "2", 3)} {
		if last, err := bus.ClaimBatch(t.Context(), b, ps); err != nil || last != uint64(3*i+3) {
			t.Fatalf("ClaimBatch = %d, %v", last, err)
		}
	}
	// The series went on, but the closing still shows where the first batch is.
	if last, err := bus.ClaimBatch(t.Context(), b, invoice("a", "1", 0)); err != nil || last != 3 {
		t.Errorf("the same again: %d, %v; want 3", last, err)
	}
	for name, ps := range map[string][]bus.Publication{
		"the closing with another number": invoice("a", "3", 6),
		"another closing with the number": invoice("c", "1", 0),
		"half of the batch":               invoice("b", "2", 3)[1:2],
	} {
		_, err := bus.ClaimBatch(t.Context(), b, ps)
		if half := name == "half of the batch"; half && err != nil || !half && !errors.Is(err, bus.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if last, err := b.LastSeq(t.Context(), bus.Facts); err != nil || last != 6 {
		t.Errorf("the log ends at %d, %v; want 6", last, err)
	}
}

// Whatever is lost on the way, a place is taken once, and all who believe to hold it hold the same.
func TestClaimIsUnique(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := membus.New(time.Now)
		batch := rapid.Bool().Draw(r, "batch")
		var holders []string
		for i := range rapid.IntRange(1, 6).Draw(r, "claims") {
			b := &faulty{Bus: log, faults: rapid.SliceOfN(rapid.SampledFrom([]fault{none, lostRequest, lostAnswer, late, noLast}), 0, 4).Draw(r, "faults")}
			content := rapid.SampledFrom([]string{"x", "y"}).Draw(r, "content")
			ps := []bus.Publication{claimOf(content), {Subject: "gh.fact.note.n", Data: []byte(content)}}
			var err error
			if batch {
				_, err = bus.ClaimBatch(r.Context(), b, ps)
			} else {
				_, err = bus.Claim(r.Context(), b, ps[0])
			}
			switch {
			case err == nil:
				holders = append(holders, content)
			case !errors.Is(err, bus.ErrConflict) && !errors.Is(err, bus.ErrAmbiguous):
				r.Fatalf("claim %d: %v", i, err)
			}
		}
		messages, err := log.ReadSubject(r.Context(), bus.Facts, "gh.fact.closing.c1", 0, 100)
		if err != nil || len(messages) > 1 || len(messages) == 0 && len(holders) > 0 {
			r.Fatalf("holders %v of messages %v, %v", holders, messages, err)
		}
		for _, m := range messages {
			if i := slices.IndexFunc(holders, func(h string) bool { return h != string(m.Data) }); i >= 0 {
				r.Fatalf("holder %d has %s, the log has %s", i, holders[i], m.Data)
			}
		}
	})
}

func ExampleClaim() {
	log := membus.New(time.Now)
	closing := bus.Publication{
		Subject:    "gh.fact.closing.acme-2026-03",
		Header:     map[string]string{bus.HeaderID: "acme/2026-03/1"},
		Data:       []byte("closing 1"),
		ExpectLast: new(uint64(0)), // nobody closed it yet
	}
	for _, content := range []string{"closing 1", "closing 1", "another one"} {
		closing.Data = []byte(content)
		seq, err := bus.Claim(context.Background(), log, closing)
		fmt.Println(seq, err)
	}
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 0 claim: gh.fact.closing.acme-2026-03: the subject's last message is not the expected one: expected 0, found 1
}
