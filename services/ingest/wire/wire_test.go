package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := wire.Request{
			Kind: wire.Publish, ExpectLast: rapid.Uint64().Draw(t, "expect"),
			Batches: rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 20).Draw(t, "batches"),
		}
		data := want.Append(nil)
		size := len((&wire.Request{Kind: wire.Publish, ExpectLast: want.ExpectLast}).Append(nil))
		for _, b := range want.Batches {
			size += wire.Size(len(b))
		}
		if size != len(data) {
			t.Fatalf("sizes add up to %d of %d bytes", size, len(data))
		}
		got, err := wire.ParseRequest(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		if cut, err := wire.ParseRequest(data[:len(data)-1]); err == nil && len(cut.Batches) >= len(want.Batches) {
			t.Fatal("a torn request was taken whole")
		}
	})
}

func TestAnswerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := wire.Answer{
			Outcome: wire.Outcome(rapid.IntRange(1, 7).Draw(t, "outcome")), Position: rapid.Uint64().Draw(t, "position"),
			Detail: rapid.StringN(0, 100, wire.MaxDetail).Draw(t, "detail"), Batch: rapid.SliceOf(rapid.Byte()).Draw(t, "batch"),
		}
		got, err := wire.ParseAnswer(want.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
	long := wire.Answer{Outcome: wire.Refused, Detail: strings.Repeat("x", 5000)}
	if a, err := wire.ParseAnswer(long.Append(nil)); err != nil || len(a.Detail) != wire.MaxDetail {
		t.Errorf("a long detail comes back with %d bytes, %v", len(a.Detail), err)
	}
}

// TestTheLargestMessageFits: what a node may publish itself it may also send to an ingest.
func TestTheLargestMessageFits(t *testing.T) {
	r := wire.Request{Kind: wire.Publish, ExpectLast: 1<<64 - 1, Batches: [][]byte{make([]byte, bus.MaxMessageBytes)}}
	const serverTakes = 1 << 20
	if n := len(r.Append(nil)); n > wire.MaxBytes || wire.MaxBytes > serverTakes {
		t.Errorf("it has %d bytes of %d, and a server lets %d through", n, wire.MaxBytes, serverTakes)
	}
	a := wire.Answer{Outcome: wire.Held, Position: 1<<64 - 1, Batch: make([]byte, bus.MaxMessageBytes)}
	if n := len(a.Append(nil)); n > serverTakes {
		t.Errorf("the answer that holds it has %d bytes", n)
	}
}

func TestSubjects(t *testing.T) {
	for node, want := range map[string]string{"node7": "gh.ingest.14.node7", "a b": "gh.ingest.50.=meqge"} {
		usage := codec.UsageSubject(node)
		if got := wire.Subject(usage); got != want || wire.UsageSubject(got) != usage {
			t.Errorf("%s: requests go to %s and stand for %s; want %s and %s", node, got, wire.UsageSubject(got), want, usage)
		}
	}
}

// TestEmptyBatchesTakeNoMemory: a request of a million of them would take as much as all requests that wait together.
func TestEmptyBatchesTakeNoMemory(t *testing.T) {
	data := make([]byte, wire.MaxBytes)
	data[0] = byte(wire.Publish)
	if n := testing.AllocsPerRun(1, func() {
		if _, err := wire.ParseRequest(data); err == nil || !strings.Contains(err.Error(), "more than 1000 batches") {
			t.Fatal(err)
		}
	}); n > 20 { // a list that doubles allocates 11 times up to 1024, and 21 times up to a million
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add((&wire.Request{Kind: wire.Publish, ExpectLast: 300, Batches: [][]byte{[]byte("one"), []byte("two")}}).Append(nil))
	f.Add([]byte{byte(wire.Last)})
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := wire.ParseRequest(data)
		if err != nil {
			return
		}
		again, err := wire.ParseRequest(r.Append(nil))
		if err != nil || !cmp.Equal(r, again, cmpopts.EquateEmpty()) {
			t.Errorf("%+v comes back as %+v, %v", r, again, err)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add((&wire.Answer{Outcome: wire.Held, Position: 300, Detail: "why", Batch: []byte("one")}).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := wire.ParseAnswer(data)
		if err != nil {
			return
		}
		again, err := wire.ParseAnswer(a.Append(nil))
		if err != nil || again.Outcome != a.Outcome || again.Detail != a.Detail || !bytes.Equal(again.Batch, a.Batch) {
			t.Errorf("%+v comes back as %+v, %v", a, again, err)
		}
	})
}
