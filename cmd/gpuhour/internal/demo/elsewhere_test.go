package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

// begun is a log in memory with the demo's four contracts and a lease of 40 days.
func begun(t *testing.T) *gpuhour.Engine {
	t.Helper()
	e, err := gpuhour.Open(t.Context(), gpuhour.DefaultConfig(), gpuhour.Options{Memory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Declare(t.Context(), fact.Scripted); err != nil {
		t.Fatal(err)
	}
	facts, err := Contracts("")
	if err != nil {
		t.Fatal(err)
	}
	start := &fact.LeaseStarted{
		Lease: "L", Customer: openb.Customers()[0], SKU: openb.SKU, PricingMode: openb.PricingMode, At: openb.DemoStart + 5,
		Devices: []fact.Share{{Node: "n", Device: "d", ShareMilli: 500}},
	}
	stop := &fact.LeaseStopped{Lease: "L", At: start.At + 40*86400, By: fact.ByCustomer}
	facts = append(facts, fact.Fact{Key: "L/1", Hash: fact.HashJSON(start), Body: start}, fact.Fact{Key: "L/2", Hash: fact.HashJSON(stop), Body: stop})
	if err := e.State(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	return e
}

// stops moves the clock to where periods fall due, four times, and returns the instants and the documents.
func stops(t *testing.T, e *gpuhour.Engine, s services) (out []string) {
	t.Helper()
	at := openb.DemoStart
	for range 5 {
		if err := s.Advance(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		out = append(out, at.String())
		at = s.NextDue(at)
	}
	rows, err := e.Invoices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, string(r.Document))
	}
	return out
}

// TestElsewhere: whoever works, the clock stops at the same instants and goes on when the same is in the tables.
func TestElsewhere(t *testing.T) {
	inside := begun(t)
	want := stops(t, inside, inside)
	if len(want) != 5+16 {
		t.Fatalf("%d stops and documents:\n%s", len(want), strings.Join(want, "\n"))
	}
	synctest.Test(t, func(t *testing.T) {
		e := begun(t)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := e.Serve(ctx, gpuhour.ServiceRater, gpuhour.ServiceInvoicer, gpuhour.ServiceAlerter); err != nil {
				t.Error(err)
			}
		})
		got := stops(t, e, newElsewhere(e, NewProgress(io.Discard, false)))
		stop()
		running.Wait()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("served elsewhere (-here +elsewhere):\n%s", d)
		}
	})
}

// TestNobodyElsewhere: the driver waits as long as something moves, and then says who did not.
func TestNobodyElsewhere(t *testing.T) {
	for _, served := range [][]string{{}, {gpuhour.ServiceRater, gpuhour.ServiceAlerter}} {
		t.Run(fmt.Sprint(served), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := begun(t)
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				if len(served) > 0 {
					running.Go(func() {
						if err := e.Serve(ctx, served...); err != nil {
							t.Error(err)
						}
					})
				}
				s := newElsewhere(e, NewProgress(io.Discard, false))
				began := time.Now()
				var err error
				for at := openb.DemoStart; err == nil && at != span.Open; at = s.NextDue(at) {
					err = s.Advance(t.Context(), at)
				}
				stop()
				running.Wait()
				if err == nil || !strings.Contains(err.Error(), "no service moved for 1m0s at 202") || time.Since(began) < patience {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// TestRest: everybody is at rest after Advance, and not when any one of them lacks one thing.
func TestRest(t *testing.T) {
	e := begun(t)
	stops(t, e, e)
	for name, lack := range map[string]func(*elsewhere){
		"a fact after the last tick":    func(s *elsewhere) { s.at.read++ },
		"a tick that the rater lacks":   func(s *elsewhere) { s.at.rater-- },
		"a tick that the alerter lacks": func(s *elsewhere) { s.at.alerter-- },
		"a cut without an answer":       func(s *elsewhere) { s.asked++ },
		"a cut that is not worked out":  func(s *elsewhere) { s.at.invoicer-- },
		"an invoice not in the tables":  func(s *elsewhere) { s.at.invoices-- },
		"a period that falls due":       func(s *elsewhere) { s.fold.Tick(s.fold.NextDue(openb.DemoStart + 130*86400)) },
	} {
		s := newElsewhere(e, nil)
		if err := s.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !s.rest() {
			t.Fatalf("at %+v nobody rests", s.at)
		}
		if lack(s); s.rest() {
			t.Errorf("%s: all rest", name)
		}
	}
}
