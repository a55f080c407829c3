package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/sim"
)

var seed = flag.Uint64("seed", 1, "the seed that TestSeed plays")

// TestSeed plays one seed and tells its story: the one line that a failure prints.
func TestSeed(t *testing.T) {
	r := sim.Run(*seed, sim.Options{Tell: t.Logf})
	t.Logf("%s\n%s", r.Transcript, r.Figures.String())
	if r.Failure != nil {
		_, _, story := sim.Shrink(*seed, sim.Options{})
		t.Fatalf("%v\nmade smaller:\n%s", r.Failure, story)
	}
}

// TestSeeds: every seed ends with the auditor's bill. SIM_SEEDS says how many from 1 on, 2,000 when it does not.
func TestSeeds(t *testing.T) {
	seeds := uint64(2000)
	if text := os.Getenv("SIM_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	var all sim.Figures
	var lock sync.Mutex
	var played atomic.Uint64
	defer everySeconds(20, func(since int) {
		if n := played.Load(); n > 0 {
			fmt.Fprintf(os.Stderr, "sim: %d of the seeds 1 to %d played in %d s\n", n, seeds, since)
		}
	})()
	t.Run("chunks", func(t *testing.T) {
		const chunks = 16
		for c := range uint64(chunks) {
			t.Run(strconv.FormatUint(c, 10), func(t *testing.T) {
				t.Parallel()
				var f sim.Figures
				for s := 1 + c; s <= seeds && !t.Failed(); s += chunks {
					r := sim.Run(s, sim.Options{})
					f.Add(r.Figures)
					played.Add(1)
					if r.Failure != nil {
						fmt.Fprintf(os.Stderr, "sim: seed %d failed: %v\n", s, r.Failure)
						_, _, story := sim.Shrink(s, sim.Options{})
						t.Errorf("seed %d: %v\n%s\nmade smaller:\n%s", s, r.Failure, sim.Line(s), story)
					}
				}
				lock.Lock()
				all.Add(f)
				lock.Unlock()
			})
		}
	})
	t.Logf("seeds 1 to %d: %s", seeds, all.String())
}

// everySeconds calls tell with the seconds since now, every so many seconds, until the result is called.
func everySeconds(n int, tell func(since int)) (stop func()) {
	ticker, done := time.NewTicker(time.Duration(n)*time.Second), make(chan struct{})
	go func() {
		for since := n; ; since += n {
			select {
			case <-ticker.C:
				tell(since)
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

// TestPlantedBugs: each planted bug is found within 2,000 seeds; how many it takes on average is printed.
func TestPlantedBugs(t *testing.T) {
	finds := 3
	if testing.Short() {
		finds = 1
	}
	for _, bug := range sim.Bugs() {
		t.Run(strings.ReplaceAll(string(bug), " ", "-"), func(t *testing.T) {
			t.Parallel()
			found, s := 0, uint64(0)
			var first error
			for found < finds && s < 2000 {
				s++
				if r := sim.Run(s, sim.Options{Bug: bug}); r.Failure != nil {
					if without := sim.Run(s, sim.Options{}); without.Failure != nil {
						t.Fatalf("seed %d fails without the bug: %v", s, without.Failure)
					}
					found++
					if first == nil {
						first = r.Failure
					}
				}
			}
			if found == 0 {
				t.Fatalf("2,000 seeds did not find it")
			}
			t.Logf("found %d times in %d seeds, every %d seeds; first as: %v", found, s, s/uint64(found), first)
		})
	}
}

// TestSameSeedSameTranscript: a seed is one history, to the last call.
func TestSameSeedSameTranscript(t *testing.T) {
	t.Parallel()
	for s := uint64(1); s <= 40; s++ {
		first, second := sim.Run(s, sim.Options{}), sim.Run(s, sim.Options{})
		if first.Transcript != second.Transcript {
			t.Fatalf("seed %d: %s, then %s", s, first.Transcript, second.Transcript)
		}
	}
}

// TestShrinkTellsASmallStory: a planted bug's history gets smaller, still fails, and says how to see it again.
func TestShrinkTellsASmallStory(t *testing.T) {
	t.Parallel()
	for s := uint64(1); s < 100; s++ {
		o := sim.Options{Bug: sim.ProgressFirst}
		whole := sim.Run(s, o)
		if whole.Failure == nil {
			continue
		}
		small, r, story := sim.Shrink(s, o)
		if r.Failure == nil || sim.Run(s, small).Transcript != r.Transcript {
			t.Fatalf("seed %d does not fail any more when made smaller", s)
		}
		if len(small.Without) == 0 || !strings.Contains(story, sim.Line(s)) {
			t.Fatalf("seed %d: nothing was left out of %v, or the line is missing in\n%s", s, whole.Groups, story)
		}
		t.Logf("of %d groups %d are left out, and %d of %d faults\n%s", len(whole.Groups), len(small.Without), small.FaultsFrom, whole.Faults, story)
		return
	}
	t.Fatal("no seed fails")
}

// TestRegressions are seeds on which the product once failed. A seed is a history only as long as the author draws alike:
// when the drawing changes, the line says what to look for.
func TestRegressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seed uint64
		was  string
	}{
		{42009, "time of a lease in front of a contract's term that stayed refused as unknown_contract when the contract was signed late"},
		{53585, "the same"},
		{499, "a correction that was never issued: the invoicer worked through a cut while the tables were being rebuilt and held less than the cut says"},
		{1074, "the same after the tables were lost: nothing had changed yet, so nothing was corrected, and nobody looked again"},
		{1489, "the same after a log was restored from a copy"},
		{259, "a batch ahead of its tick that was quarantined, and taken in all the same by the rater that started next"},
		{552, "the same"},
		{369, "a collector that died between a write and its sync: the next one published what a power loss then took from the spool, and held itself for a clone"},
		{1545, "the same"},
	} {
		if r := sim.Run(c.seed, sim.Options{Plain: true}); r.Failure != nil {
			t.Errorf("seed %d of the first stream, once %s: %v", c.seed, c.was, r.Failure)
		}
	}
}

// TestLaterRegressions are the same on both streams.
func TestLaterRegressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seed uint64
		was  string
	}{
		{32934, "a log that was restored without the answer to a cut that the tables stood beyond: the rater answered it for another block"},
		{42741, "an auditor that had not yet heard of a tick that the services refused"},
	} {
		if r := sim.Run(c.seed, sim.Options{}); r.Failure != nil {
			t.Errorf("seed %d, once %s: %v", c.seed, c.was, r.Failure)
		}
	}
}

// TestMain lets memory grow: a seed leaves much behind that nobody needs.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
