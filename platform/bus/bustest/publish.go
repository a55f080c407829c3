package bustest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func emptyLog(t *testing.T, ctx context.Context, b bus.Bus) {
	for _, stream := range []string{bus.Facts, bus.Usage} {
		wantLastSeq(t, ctx, b, stream, 0)
		messages, err := b.Read(ctx, stream, 0, 10)
		if err != nil || len(messages) > 0 {
			t.Fatalf("Read(%s) = %v, %v; want nothing", stream, messages, err)
		}
	}
	ticks, err := b.ReadSubject(ctx, bus.Usage, bus.Tick, 0, 10)
	if err != nil || len(ticks) > 0 {
		t.Fatalf("ReadSubject = %v, %v; want nothing", ticks, err)
	}
	_, err = b.Last(ctx, bus.Tick)
	wantError(t, err, bus.ErrNotFound)
}

func publishAndReadBack(t *testing.T, ctx context.Context, b bus.Bus) {
	empty := bus.Publication{Subject: bus.Tick}
	publish(t, ctx, b, 1, fact(1))
	publish(t, ctx, b, 1, usage(7, 1)) // each stream counts for itself
	publish(t, ctx, b, 2, fact(2))
	publish(t, ctx, b, 2, empty)
	publish(t, ctx, b, 3, fact(1)) // an equal message is another message

	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 10), bus.Facts, 1, fact(1), fact(2), fact(1))
	wantMessages(t, readAll(t, ctx, b, bus.Usage, 0, 10), bus.Usage, 1, usage(7, 1), empty)
	last, err := b.Last(ctx, fact(1).Subject)
	if err != nil {
		t.Fatal(err)
	}
	wantMessages(t, []bus.Message{last}, bus.Facts, 3, fact(1))
	last, err = b.Last(ctx, bus.Tick)
	if err != nil {
		t.Fatal(err)
	}
	wantMessages(t, []bus.Message{last}, bus.Usage, 2, empty)
	_, err = b.Last(ctx, fact(3).Subject)
	wantError(t, err, bus.ErrNotFound)
	wantLastSeq(t, ctx, b, bus.Facts, 3)
	wantLastSeq(t, ctx, b, bus.Usage, 2)
}

func headerRoundTrip(t *testing.T, ctx context.Context, b bus.Bus) {
	value := rapid.Custom(func(t *rapid.T) string {
		return strings.TrimSpace(rapid.StringMatching(`[ -~§ü费]{0,40}`).Draw(t, "value"))
	})
	headers := rapid.MapOfN(rapid.StringMatching(`(ce-|Ce-|x|Status)[A-Za-z0-9_-]{0,20}`), value, 0, 8)
	seq := uint64(0)
	rapid.Check(t, func(r *rapid.T) {
		p := bus.Publication{Subject: "gh.fact.x.y", Header: headers.Draw(r, "headers"), Data: rapid.SliceOf(rapid.Byte()).Draw(r, "data")}
		if rapid.Bool().Draw(r, "expecting") {
			p.ExpectLast = &seq
		}
		got, err := b.Publish(ctx, p)
		if err != nil {
			r.Fatal(err)
		}
		last, err := b.Last(ctx, p.Subject)
		if err != nil {
			r.Fatal(err)
		}
		messages, err := b.Read(ctx, bus.Facts, seq, 5)
		if err != nil {
			r.Fatal(err)
		}
		wantMessages(t, append(messages, last)[:1], bus.Facts, got, p)
		wantMessages(t, []bus.Message{last}, bus.Facts, got, p)
		seq = got
	})
}

func dataBelongsToCaller(t *testing.T, ctx context.Context, b bus.Bus) {
	p := fact(1)
	publish(t, ctx, b, 1, p)
	p.Data[0], p.Header[bus.HeaderID] = 'X', "other"
	messages := readAll(t, ctx, b, bus.Facts, 0, 1)
	wantMessages(t, messages, bus.Facts, 1, fact(1))
	messages[0].Data[0], messages[0].Header[bus.HeaderID] = 'Y', "other"
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 1), bus.Facts, 1, fact(1))
}

func expectations(t *testing.T, ctx context.Context, b bus.Bus) {
	p := fact(1)
	publish(t, ctx, b, 1, expect(p, 0))
	publish(t, ctx, b, 2, expect(fact(2), 0)) // of the subject, not of the stream
	publish(t, ctx, b, 3, expect(p, 1))
	for _, wrong := range []uint64{0, 1, 2, 4} {
		_, err := b.Publish(ctx, expect(p, wrong))
		wantConflict(t, err, bus.ConflictError{Subject: p.Subject, Expected: wrong, Actual: new(uint64(3))})
	}
	_, err := b.Publish(ctx, expect(fact(3), 1))
	wantConflict(t, err, bus.ConflictError{Subject: fact(3).Subject, Expected: 1, Actual: new(uint64(0))})
	publish(t, ctx, b, 4, p)
	publish(t, ctx, b, 5, expect(p, 4))
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, 100), bus.Facts, 1, p, fact(2), p, p, p)
}

func wantConflict(t *testing.T, err error, want bus.ConflictError) {
	t.Helper()
	wantError(t, err, bus.ErrConflict)
	var got *bus.ConflictError
	if !errors.As(err, &got) || got.Subject != want.Subject || got.Expected != want.Expected || got.Actual == nil || *got.Actual != *want.Actual {
		t.Fatalf("error %v; want %v", err, &want)
	}
}

func largestMessage(t *testing.T, ctx context.Context, b bus.Bus) {
	data := bus.Publication{Subject: "gh.usage.1.n", Data: bytes.Repeat([]byte("d"), bus.MaxMessageBytes)}
	header := bus.Publication{Subject: "gh.usage.1.n", Header: map[string]string{"h": strings.Repeat("v", bus.MaxHeaderBytes-len("h: \r\n"))}}
	last, err := b.PublishBatch(ctx, []bus.Publication{expect(data, 0), header, data, data, data, data, data, data, data, data, data})
	if err != nil || last != 11 {
		t.Fatalf("PublishBatch = %d, %v; want 11", last, err)
	}
	publish(t, ctx, b, 12, expect(data, 11))
	wantMessages(t, readAll(t, ctx, b, bus.Usage, 0, 100), bus.Usage, 1, data, header, data, data, data, data, data, data, data, data, data, data)
}

func tooLarge(t *testing.T, ctx context.Context, b bus.Bus) {
	data := bus.Publication{Subject: "gh.fact.x.y", Data: make([]byte, bus.MaxMessageBytes+1)}
	header := bus.Publication{Subject: "gh.fact.x.y", Header: map[string]string{"h": strings.Repeat("v", bus.MaxHeaderBytes)}}
	for _, p := range []bus.Publication{data, header} {
		_, err := b.Publish(ctx, p)
		wantError(t, err, bus.ErrTooLarge)
		_, err = b.PublishBatch(ctx, []bus.Publication{fact(1), p})
		wantError(t, err, bus.ErrTooLarge)
	}
	large := bus.Publication{Subject: "gh.fact.x.y", Data: make([]byte, 1_000_000)}
	many := make([]bus.Publication, bus.MaxBatchBytes/1_000_000+1)
	for i := range many {
		many[i] = large
	}
	_, err := b.PublishBatch(ctx, many)
	wantError(t, err, bus.ErrTooLarge)
	wantLastSeq(t, ctx, b, bus.Facts, 0)
}

func invalidArguments(t *testing.T, ctx context.Context, b bus.Bus) {
	for _, p := range []bus.Publication{
		{},
		{Subject: "gh.fact"},
		{Subject: "gh.fact."},
		{Subject: "gh.fact.*.x"},
		{Subject: "gh.fact.>"},
		{Subject: "gh.fact.a b"},
		{Subject: "gh.fact.费"},
		{Subject: "gh.fact." + strings.Repeat("x", 600)},
		{Subject: "gh.tick.x"},
		{Subject: "other"},
		{Subject: "gh.fact.x.y", Header: map[string]string{"Nats-Msg-Id": "1"}},
		{Subject: "gh.fact.x.y", Header: map[string]string{"nats-rollup": "all"}},
		{Subject: "gh.fact.x.y", Header: map[string]string{"a b": "1"}},
		{Subject: "gh.fact.x.y", Header: map[string]string{"": "1"}},
		{Subject: "gh.fact.x.y", Header: map[string]string{"a": "1\r\nb: 2"}},
		{Subject: "gh.fact.x.y", Header: map[string]string{"a": " 1"}},
	} {
		_, err := b.Publish(ctx, p)
		wantError(t, err, bus.ErrInvalid)
		_, err = b.PublishBatch(ctx, []bus.Publication{fact(1), p})
		wantError(t, err, bus.ErrInvalid)
	}
	for _, ps := range [][]bus.Publication{
		{},
		{fact(1), usage(1, 1)},
		{fact(1), expect(fact(1), 0)},
	} {
		_, err := b.PublishBatch(ctx, ps)
		wantError(t, err, bus.ErrInvalid)
	}
	invalidReads(t, ctx, b)
	wantLastSeq(t, ctx, b, bus.Facts, 0)
}

func invalidReads(t *testing.T, ctx context.Context, b bus.Bus) {
	_, err := b.Last(ctx, "gh.fact.>")
	wantError(t, err, bus.ErrInvalid)
	_, err = b.LastSeq(ctx, "OTHER")
	wantError(t, err, bus.ErrInvalid)
	_, err = b.Read(ctx, "OTHER", 0, 1)
	wantError(t, err, bus.ErrInvalid)
	_, err = b.Read(ctx, bus.Facts, 0, 0)
	wantError(t, err, bus.ErrInvalid)
	for _, subject := range []string{"", bus.Tick, "gh.>", "gh.fact..x"} {
		_, err = b.ReadSubject(ctx, bus.Facts, subject, 0, 1)
		wantError(t, err, bus.ErrInvalid)
	}
	wantError(t, b.Wait(ctx, "OTHER", 0), bus.ErrInvalid)
}

func cancelled(t *testing.T, ctx context.Context, b bus.Bus) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := b.Publish(ctx, fact(1))
	wantError(t, err, context.Canceled)
	if errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("%v is ambiguous, but nothing was sent", err)
	}
	_, err = b.PublishBatch(ctx, []bus.Publication{fact(1), fact(2)})
	wantError(t, err, context.Canceled)
	_, err = b.Read(ctx, bus.Facts, 0, 1)
	wantError(t, err, context.Canceled)
	_, err = b.Last(ctx, bus.Tick)
	wantError(t, err, context.Canceled)
	wantLastSeq(t, t.Context(), b, bus.Facts, 0)
}

func closed(t *testing.T, ctx context.Context, b bus.Bus) {
	publish(t, ctx, b, 1, fact(1))
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Publish(ctx, fact(2))
	wantError(t, err, bus.ErrClosed)
	if errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("%v is ambiguous, but nothing was sent", err)
	}
	_, err = b.PublishBatch(ctx, []bus.Publication{fact(2), fact(3)})
	wantError(t, err, bus.ErrClosed)
	_, err = b.Last(ctx, bus.Tick)
	wantError(t, err, bus.ErrClosed)
	_, err = b.LastSeq(ctx, bus.Facts)
	wantError(t, err, bus.ErrClosed)
	_, err = b.Read(ctx, bus.Facts, 0, 1)
	wantError(t, err, bus.ErrClosed)
	_, err = b.ReadSubject(ctx, bus.Usage, bus.Tick, 0, 1)
	wantError(t, err, bus.ErrClosed)
	wantError(t, b.Wait(ctx, bus.Facts, 1), bus.ErrClosed)
}
