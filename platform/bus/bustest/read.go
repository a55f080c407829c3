package bustest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func readAnywhere(t *testing.T, ctx context.Context, b bus.Bus) {
	const total = 5000
	all := facts(total)
	for i := 0; i < total; i += bus.MaxBatch {
		publishBatch(t, ctx, b, uint64(i+bus.MaxBatch), all[i:i+bus.MaxBatch]...)
	}
	wantMessages(t, readAll(t, ctx, b, bus.Facts, 0, total), bus.Facts, 1, all...)
	rapid.Check(t, func(r *rapid.T) {
		after := rapid.Uint64Range(0, total+10).Draw(r, "seek")
		for range rapid.IntRange(1, 4).Draw(r, "reads") { // on from there, as a reader does
			size := rapid.IntRange(1, 700).Draw(r, "size")
			messages, err := b.Read(ctx, bus.Facts, after, size)
			if err != nil {
				r.Fatal(err)
			}
			if len(messages) > size || len(messages) == 0 && after < total {
				r.Fatalf("%d messages after %d, asked for %d", len(messages), after, size)
			}
			begin := min(after, total)
			wantMessages(t, messages, bus.Facts, after+1, all[begin:begin+uint64(len(messages))]...)
			after += uint64(len(messages))
		}
	})
}

func readBySubject(t *testing.T, ctx context.Context, b bus.Bus) {
	var all []bus.Publication
	for i := range 300 {
		if i%10 == 9 {
			all = append(all, bus.Publication{Subject: bus.Tick, Data: fmt.Append(nil, i)})
		} else {
			all = append(all, usage(i%3, i))
		}
	}
	publishBatch(t, ctx, b, uint64(len(all)), all...)
	for filter, prefix := range map[string]string{
		bus.Tick:             bus.Tick,
		"gh.usage.>":         "gh.usage.",
		"gh.usage.*.node1":   "gh.usage.1.",
		"gh.usage.2.>":       "gh.usage.2.",
		"gh.usage.0.node0":   "gh.usage.0.",
		"gh.usage.0.node1":   "none",
		"gh.usage.0.node0.>": "none",
	} {
		for _, after := range []uint64{0, 1, 9, 10, 150, 299, 300, 400} {
			readFilter(t, ctx, b, all, filter, prefix, after)
		}
	}
}

// readFilter follows a filter in small steps and compares with the messages that have the prefix.
func readFilter(t *testing.T, ctx context.Context, b bus.Bus, all []bus.Publication, filter, prefix string, after uint64) {
	var got []bus.Message
	for position := after; ; position = got[len(got)-1].Seq {
		messages, err := b.ReadSubject(ctx, bus.Usage, filter, position, 20)
		if err != nil {
			t.Fatalf("ReadSubject(%s, %d): %v", filter, position, err)
		}
		if len(messages) == 0 {
			break
		}
		got = append(got, messages...)
	}
	for i, p := range all {
		if seq := uint64(i + 1); seq > after && strings.HasPrefix(p.Subject, prefix) {
			if len(got) == 0 {
				t.Fatalf("ReadSubject(%s) from %d ends before %d", filter, after, seq)
			}
			wantMessages(t, got[:1], bus.Usage, seq, p)
			got = got[1:]
		}
	}
	if len(got) > 0 {
		t.Fatalf("ReadSubject(%s) from %d also has %v", filter, after, got)
	}
}

func wait(t *testing.T, ctx context.Context, b bus.Bus) {
	for i := range uint64(20) {
		woken := make(chan error, 1)
		go func() { woken <- b.Wait(ctx, bus.Facts, i) }()
		publish(t, ctx, b, i+1, usage(1, 1)) // the other stream
		select {
		case err := <-woken:
			t.Fatalf("Wait returned %v before there was message %d", err, i+1)
		default:
		}
		publish(t, ctx, b, i+1, fact(1))
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(ctx, bus.Facts, i); err != nil { // there already
			t.Fatal(err)
		}
	}
}

func waitEnds(t *testing.T, ctx context.Context, b bus.Bus) {
	publish(t, ctx, b, 1, fact(1))
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	wantError(t, b.Wait(short, bus.Facts, 1), context.DeadlineExceeded)
	short, cancel = context.WithCancel(ctx)
	woken := make(chan error, 1)
	go func() { woken <- b.Wait(short, bus.Facts, 1) }()
	cancel()
	wantError(t, <-woken, context.Canceled)
	wantLastSeq(t, ctx, b, bus.Facts, 1)
}

func closeEndsWait(t *testing.T, ctx context.Context, b bus.Bus) {
	woken := make(chan error, 1)
	go func() { woken <- b.Wait(ctx, bus.Facts, 0) }()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-woken, bus.ErrClosed)
}
