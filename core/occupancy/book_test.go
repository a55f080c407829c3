package occupancy

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

func started(at span.Second, shares ...int64) fact.Body {
	return &fact.LeaseStarted{Lease: "L", Customer: "acme", At: at, Devices: placed(shares)}
}

func resized(at span.Second, shares ...int64) fact.Body {
	return &fact.LeaseResized{Lease: "L", At: at, Devices: placed(shares)}
}

func placed(shares []int64) []fact.Share {
	var out []fact.Share
	for i, s := range shares {
		out = append(out, fact.Share{Node: "n", Device: fmt.Sprint("d", i), ShareMilli: s})
	}
	return out
}

func state(at span.Second, s fact.LeaseState) fact.Body {
	return &fact.LeaseStateChanged{Lease: "L", At: at, State: s}
}

func stopped(at span.Second, by fact.EndedBy) fact.Body {
	return &fact.LeaseStopped{Lease: "L", At: at, By: by}
}

// told is a lease in one line for each tranche, start and problem.
func told(l *Lease) string {
	to := func(s span.Second) string {
		if s == span.Open {
			return "open"
		}
		return fmt.Sprint(int64(s))
	}
	var out []string
	for _, tr := range l.Tranches {
		of := ""
		if tr.Each != tr.Milli {
			of = fmt.Sprint(" of ", tr.Each)
		}
		out = append(out, fmt.Sprintf("%s [%d,%s) %d milli%s since %d/%d", tr.Unit.Device, tr.Span.From, to(tr.Span.To), tr.Milli, of, tr.Began, tr.Seq))
	}
	for _, s := range l.Starts {
		text := fmt.Sprintf("start [%d,%s)", s.Span.From, to(s.Span.To))
		if s.EndedBy != "" {
			text += " by " + string(s.EndedBy)
		}
		if s.AfterFault {
			text += " after a fault"
		}
		for _, h := range s.Last {
			text += fmt.Sprintf(" last %s %d", h.Unit.Device, h.Milli)
		}
		out = append(out, text)
	}
	for _, p := range l.Problems {
		out = append(out, fmt.Sprintf("%s at %d", p.Reason, p.At))
	}
	return strings.Join(out, "\n")
}

func TestTimeline(t *testing.T) {
	tests := []struct {
		name  string
		facts []fact.Body // positions 1, 2 ...
		want  string
	}{
		{"open", []fact.Body{started(10, 1000)}, "d0 [10,open) 1000 milli since 10/1\nstart [10,open)"},
		{
			"newest first, and the straddling tranche is split; each goes on with what is held of the device",
			[]fact.Body{started(10, 300), resized(20, 500), resized(30, 1000), resized(40, 400), stopped(50, fact.ByCustomer)},
			"d0 [10,20) 300 milli since 10/1\nd0 [20,30) 300 milli of 500 since 10/1\nd0 [20,30) 200 milli of 500 since 20/2\nd0 [30,40) 300 milli of 1000 since 10/1\n" +
				"d0 [30,40) 200 milli of 1000 since 20/2\nd0 [30,40) 500 milli of 1000 since 30/3\nd0 [40,50) 100 milli of 400 since 20/2\nd0 [40,50) 300 milli of 400 since 10/1\nstart [10,50) by customer last d0 400",
		},
		{
			"a swap of devices is no start",
			[]fact.Body{&fact.LeaseStarted{Lease: "L", At: 10, Devices: []fact.Share{{Device: "a", ShareMilli: 1000}}}, resized(20, 1000), stopped(30, fact.ByCustomer)},
			"a [10,20) 1000 milli since 10/1\nd0 [20,30) 1000 milli since 20/2\nstart [10,30) by customer last d0 1000",
		},
		{"no length", []fact.Body{started(10, 1000, 1000), stopped(10, fact.ByCustomer)}, "start [10,10) by customer last d0 1000 last d1 1000"},
		{"the stop arrived first", []fact.Body{stopped(10, fact.ByCustomer), started(10, 1000)}, "start [10,10) by customer last d0 1000"},
		{
			"a resize at the instant of the stop changes no second",
			[]fact.Body{started(10, 300), resized(20, 900), stopped(20, fact.ByCustomer)},
			"d0 [10,20) 300 milli since 10/1\nstart [10,20) by customer last d0 300",
		},
		{
			"what follows the stop in position at its instant comes after it",
			[]fact.Body{started(10, 1000), state(15, fact.Suspended), stopped(20, fact.ByCustomer), state(20, fact.Running)},
			"d0 [10,15) 1000 milli since 10/1\nstart [10,15) by customer last d0 1000\nafter_stop at 20",
		},
		{
			"resumed is a start, and what was held comes back",
			[]fact.Body{started(10, 300), state(20, fact.Suspended), resized(25, 700), state(30, fact.Running)},
			"d0 [10,20) 300 milli since 10/1\nd0 [30,open) 700 milli since 30/4\nstart [10,20) by customer last d0 300\nstart [30,open)",
		},
		{
			"stop before start is held",
			[]fact.Body{started(10, 1000), stopped(9, fact.ByCustomer)},
			"d0 [10,open) 1000 milli since 10/1\nstart [10,open)\nstop_before_start at 9",
		},
		{"no start", []fact.Body{stopped(9, fact.ByCustomer)}, "unknown_lease at 9"},
		{
			"of two starts the first in the log stands",
			[]fact.Body{started(10, 1000), started(5, 500)},
			"d0 [10,open) 1000 milli since 10/1\nstart [10,open)\nsecond_start at 5",
		},
		{
			"after the stop",
			[]fact.Body{started(10, 1000), stopped(20, fact.ByCustomer), state(30, fact.Running), stopped(40, fact.ByProvider)},
			"d0 [10,20) 1000 milli since 10/1\nstart [10,20) by customer last d0 1000\nafter_stop at 30\nafter_stop at 40",
		},
		{
			"restarted after a fault",
			[]fact.Body{started(10, 1000), stopped(20, fact.ByFault), state(30, fact.Running), stopped(40, fact.ByCustomer)},
			"d0 [10,20) 1000 milli since 10/1\nd0 [30,40) 1000 milli since 30/3\nstart [10,20) by fault last d0 1000\n" +
				"start [30,40) by customer after a fault last d0 1000",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBook(nil)
			for i := len(tt.facts) - 1; i >= 0; i-- { // the last first: order of arrival plays no part
				b.Apply(fact.Fact{Seq: uint64(i + 1), Key: fmt.Sprint(i), Body: tt.facts[i]})
			}
			if diff := gocmp.Diff(tt.want, told(b.Lease("L"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWaiverTouchesTheTopUp(t *testing.T) {
	b := NewBook(nil)
	b.Apply(fact.Fact{Seq: 1, Body: started(10, 1000)})
	b.Apply(fact.Fact{Seq: 2, Body: stopped(10, fact.ByCustomer)})
	got := b.Apply(fact.Fact{Seq: 3, Body: &fact.RefusalWaived{Lease: "L", From: 0, To: 20}})
	want := []Touched{{Unit{Device: "d0"}, span.Span{From: 10, To: 11}}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRestartsTouchOnlyThemselves: a fact of a lease with many starts before it does not touch all of them again.
func TestRestartsTouchOnlyThemselves(t *testing.T) {
	b := NewBook(nil)
	b.Apply(fact.Fact{Seq: 1, Body: started(10, 1000)})
	for i := range 100 {
		at := span.Second(20 + 20*i)
		b.Apply(fact.Fact{Seq: uint64(2*i + 2), Body: state(at, fact.Suspended)})
		got := b.Apply(fact.Fact{Seq: uint64(2*i + 3), Body: state(at+10, fact.Running)})
		if len(got) != 1 {
			t.Fatalf("resume %d touched %d spans, want its own tranche only: %v", i, len(got), got)
		}
	}
}

func TestNodeOfADeviceThatMoves(t *testing.T) {
	b := NewBook(nil)
	for i, node := range []string{"z", "a"} {
		at := span.Second(100 * i)
		b.Apply(fact.Fact{Seq: uint64(i + 1), Body: &fact.LeaseStarted{Lease: node, At: at + 10, Devices: []fact.Share{{Node: node, Device: "d", ShareMilli: 1}}}})
		b.Apply(fact.Fact{Seq: uint64(i + 11), Body: &fact.LeaseStopped{Lease: node, At: at + 50, By: fact.ByCustomer}})
	}
	u := Unit{Device: "d"}
	for at, want := range map[span.Second]string{5: "", 10: "", 11: "z", 105: "z", 111: "a", 1000: "a"} {
		if got := b.Node(u, at); got != want {
			t.Errorf("before %d the device is on %q, want %q", at, got, want)
		}
	}
	if diff := gocmp.Diff([]Unit{u}, b.Placed("z")); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkOn: a device with a long history answers for one hour without a look at all of it.
func BenchmarkOn(b *testing.B) {
	book := NewBook(nil)
	for i := range 100_000 {
		id, at := fmt.Sprint("L", i), span.Second(3600*i/4)
		book.Apply(fact.Fact{Seq: uint64(2 * i), Body: &fact.LeaseStarted{Lease: id, At: at, Devices: placed([]int64{1000})}})
		book.Apply(fact.Fact{Seq: uint64(2*i + 1), Body: &fact.LeaseStopped{Lease: id, At: at + 800, By: fact.ByCustomer}})
	}
	var out []Tranche
	b.ReportAllocs()
	hour := span.Hour(0)
	for b.Loop() {
		out = book.On(out[:0], Unit{Device: "d0"}, (hour % 25_000).Span())
		hour += 7
	}
}
