package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func facts(n int) []bus.Publication {
	ps := make([]bus.Publication, n)
	for i := range ps {
		ps[i] = fact(i)
	}
	return ps
}

func publishBatch(t *testing.T, ctx context.Context, b bus.Bus, want uint64, ps ...bus.Publication) {
	t.Helper()
	last, err := b.PublishBatch(ctx, ps)
	if err != nil || last != want {
		t.Fatalf("PublishBatch of %d = %d, %v; want %d", len(ps), last, err, want)
	}
}

func batch(t *testing.T, ctx context.Context, b bus.Bus) {
	publish(t, ctx, b, 1, fact(0))
	publishBatch(t, ctx, b, 4, expect(fact(0), 1), expect(fact(1), 0), fact(0))
	publishBatch(t, ctx, b, 2, expect(usage(1, 1), 0), bus.Publication{Subject: bus.Tick})
	publish(t, ctx, b, 5, expect(fact(0), 4))
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 100), bus.Facts, 1, fact(0), fact(0), fact(1), fact(0), fact(0))
	wantMessages(t, readAll(t, ctx, b, bus.Usage, 0, 100), bus.Usage, 1, usage(1, 1), bus.Publication{Subject: bus.Tick})
}

func batchOfOne(t *testing.T, ctx context.Context, b bus.Bus) {
	publishBatch(t, ctx, b, 1, expect(fact(1), 0))
	_, err := b.PublishBatch(ctx, []bus.Publication{expect(fact(1), 0)})
	wantConflict(t, err, bus.ConflictError{Subject: fact(1).Subject, Expected: 0, Actual: new(uint64(1))})
	publishBatch(t, ctx, b, 2, expect(fact(1), 1))
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 100), bus.Facts, 1, fact(1), fact(1))
}

func batchConflict(t *testing.T, ctx context.Context, b bus.Bus) {
	publish(t, ctx, b, 1, fact(7))
	for _, at := range []int{0, 1, 150, 299} {
		ps := facts(300)
		ps[at] = expect(fact(1000+at), 5)
		_, err := b.PublishBatch(ctx, ps)
		wantConflict(t, err, bus.ConflictError{Subject: ps[at].Subject, Expected: 5, Actual: new(uint64(0))})
		_, err = b.Last(ctx, fact(0).Subject)
		wantError(t, err, bus.ErrNotFound)
	}
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 100), bus.Facts, 1, fact(7))
	publishBatch(t, ctx, b, 301, facts(300)...)
}

// claimAndNumber is how an invoice is issued: a closing claimed once, a number taken once.
func claimAndNumber(t *testing.T, ctx context.Context, b bus.Bus) {
	closing := bus.Publication{Subject: "gh.fact.closing.c1", Header: map[string]string{bus.HeaderID: "c1"}, Data: []byte("closing")}
	other := bus.Publication{Subject: "gh.fact.closing.c2", Header: map[string]string{bus.HeaderID: "c2"}, Data: []byte("closing")}
	number := bus.Publication{Subject: "gh.fact.invoice.series", Header: map[string]string{bus.HeaderID: "n1"}, Data: []byte("1")}

	publishBatch(t, ctx, b, 2, expect(closing, 0), expect(number, 0))
	_, err := b.PublishBatch(ctx, []bus.Publication{expect(closing, 0), expect(number, 2)})
	wantError(t, err, bus.ErrConflict) // the claim again
	_, err = b.PublishBatch(ctx, []bus.Publication{expect(other, 0), expect(number, 0)})
	wantError(t, err, bus.ErrConflict) // the number is lost
	_, err = b.Last(ctx, other.Subject)
	wantError(t, err, bus.ErrNotFound)
	publishBatch(t, ctx, b, 4, expect(other, 0), expect(number, 2))
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 100), bus.Facts, 1, closing, number, other, number)
}

func claims(t *testing.T, ctx context.Context, b bus.Bus) {
	one := expect(fact(1), 0)
	two := []bus.Publication{expect(fact(2), 0), expect(fact(3), 0), fact(4)}
	for range 2 { // the second time they are adopted
		if seq, err := bus.Claim(ctx, b, one); err != nil || seq != 1 {
			t.Fatalf("Claim = %d, %v; want 1", seq, err)
		}
		if last, err := bus.ClaimBatch(ctx, b, two); err != nil || last != 4 {
			t.Fatalf("ClaimBatch = %d, %v; want 4", last, err)
		}
	}
	one.Data = []byte("another")
	_, err := bus.Claim(ctx, b, one)
	wantConflict(t, err, bus.ConflictError{Subject: one.Subject, Expected: 0, Actual: new(uint64(1))})
	two[2].Data = []byte("another")
	_, err = bus.ClaimBatch(ctx, b, two)
	wantConflict(t, err, bus.ConflictError{Subject: two[0].Subject, Expected: 0, Actual: new(uint64(2))})
	wantLastSeq(t, ctx, b, bus.Facts, 4)
}

func largestBatch(t *testing.T, ctx context.Context, b bus.Bus) {
	_, err := b.PublishBatch(ctx, facts(bus.MaxBatch+1))
	wantError(t, err, bus.ErrTooLarge)
	wantLastSeq(t, ctx, b, bus.Facts, 0)
	publishBatch(t, ctx, b, bus.MaxBatch, facts(bus.MaxBatch)...)
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 300), bus.Facts, 1, facts(bus.MaxBatch)...)
}

// racers is how many publishers compete; more than the processors, fewer than the 50 batches that a
// server takes at a time.
const racers = 16

// race runs publish in every racer, and returns the errors of those who lost.
func race(publish func(racer int) error) (lost []error) {
	errs := make([]error, racers)
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() { errs[i] = publish(i) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			lost = append(lost, err)
		}
	}
	return lost
}

func oneWins(t *testing.T, ctx context.Context, b bus.Bus) {
	for round := range uint64(20) {
		lost := race(func(racer int) error {
			_, err := b.Publish(ctx, bus.Publication{Subject: bus.Tick, Data: fmt.Append(nil, racer), ExpectLast: &round})
			return err
		})
		wantOneWinner(t, lost)
		wantLastSeq(t, ctx, b, bus.Usage, round+1)
	}
}

func oneBatchWins(t *testing.T, ctx context.Context, b bus.Bus) {
	const size = 20
	for round := range uint64(5) {
		lost := race(func(racer int) error {
			ps := make([]bus.Publication, size)
			for i := range ps {
				ps[i] = usage(racer*size+i, i)
			}
			ps[size-1] = bus.Publication{Subject: bus.Tick, Data: fmt.Append(nil, racer), ExpectLast: new(round * size)}
			_, err := b.PublishBatch(ctx, ps)
			return err
		})
		wantOneWinner(t, lost)
		wantLastSeq(t, ctx, b, bus.Usage, (round+1)*size)
	}
}

func wantOneWinner(t *testing.T, lost []error) {
	t.Helper()
	if len(lost) != racers-1 {
		t.Fatalf("%d of %d lost; want all but one", len(lost), racers)
	}
	for _, err := range lost {
		if !errors.Is(err, bus.ErrConflict) {
			t.Fatalf("a loser got %v; want %v", err, bus.ErrConflict)
		}
	}
}

// noHole has single and batch publishers write while a reader follows.
func noHole(t *testing.T, ctx context.Context, b bus.Bus) {
	const rounds, size = 10, 5
	const total = racers / 2 * rounds * (size + 1)
	done := make(chan []error, 1)
	go func() {
		done <- race(func(racer int) error {
			for i := range rounds {
				var err error
				if racer%2 == 0 {
					_, err = b.Publish(ctx, usage(racer, i))
				} else {
					_, err = b.PublishBatch(ctx, []bus.Publication{usage(racer, i), usage(racer, i), usage(racer, i), usage(racer, i), usage(racer, i)})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}()
	perSubject := map[string]int{}
	for after := uint64(0); after < total; {
		if err := b.Wait(ctx, bus.Usage, after); err != nil {
			t.Fatal(err)
		}
		messages, err := b.Read(ctx, bus.Usage, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if after++; m.Seq != after {
				t.Fatalf("sequence %d after %d", m.Seq, after-1)
			}
			perSubject[m.Subject]++
		}
	}
	for _, err := range <-done {
		t.Error(err)
	}
	for racer := range racers {
		want := rounds
		if racer%2 == 1 {
			want *= size
		}
		if got := perSubject[usage(racer, 0).Subject]; got != want {
			t.Errorf("%d messages of publisher %d; want %d", got, racer, want)
		}
	}
}
