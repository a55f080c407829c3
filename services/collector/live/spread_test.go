package live_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// timed writes down when something was published, by the node's clock.
type timed struct {
	collector.Log
	w *world

	mu   sync.Mutex
	came []time.Time
}

func (l *timed) Publish(ctx context.Context, out []collector.Outgoing) (uint64, error) {
	l.mu.Lock()
	l.came = append(l.came, l.w.clock.Now().Wall)
	l.mu.Unlock()
	return l.Log.Publish(ctx, out)
}

// publications are those of a node that lives from 0.3 s to 42.3 s.
func publications(t *testing.T, name string) (came []time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		log := &timed{Log: w.log, w: w}
		sp, err := spool.Open(w.disk, spool.Options{})
		check(t, err)
		sampler := live.NewSampler(live.SamplerConfig{Open: w.node.Open})
		l := live.New(live.Config{
			Node: collector.Node{Name: name, Source: sampler}, Boot: "b", Clock: w.clock, Spool: sp, Log: log,
		})
		ctx, stop := context.WithTimeout(t.Context(), 42*time.Second)
		defer stop()
		check(t, l.Run(ctx))
		_, err = closed(t, sampler)
		check(t, err)
		check(t, sp.Close())
		came = log.came
	})
	return came
}

// TestNodesPublishAtTheirOwnPlace: a fleet that closes its batches in one second does not send them in one.
func TestNodesPublishAtTheirOwnPlace(t *testing.T) {
	places := map[time.Duration]int{}
	for i := range 200 {
		name := fmt.Sprint("node ", i)
		came := publications(t, name)
		for k, at := range came[:3] {
			if k > 0 && at.Sub(came[k-1]) != 10*time.Second {
				t.Fatalf("%s published at %v", name, came)
			}
		}
		place := came[0].Sub(time.Unix(int64(start)+10, 0))
		if place < 0 || place >= 8*time.Second {
			t.Fatalf("%s published %s after its batch was closed", name, place)
		}
		places[place.Truncate(time.Second)]++
		if last := came[len(came)-1]; last.Sub(time.Unix(int64(start)+42, 0)) > time.Second {
			t.Fatalf("%s was stopped at 42, and published the rest at %s", name, last)
		}
	}
	for s := range 8 {
		if n := places[time.Duration(s)*time.Second]; n < 8 {
			t.Fatalf("of 200 nodes %d publish in second %d: %v", n, s, places)
		}
	}
	equal(t, publications(t, "node 1"), publications(t, "node 1"))
}
