package run_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/platform/run"
)

var errLog = errors.New("the log is not there")

// script is a service whose turns are told: w works, i is idle, e fails, p breaks an assertion, W fails to wait. When it
// is over, its context ends.
type script struct {
	turns string
	taken int
	at    []time.Duration // when each step began
	waits int
	began time.Time
	stop  context.CancelFunc
}

func (s *script) step(context.Context) (bool, error) {
	s.at = append(s.at, time.Since(s.began))
	if s.taken == len(s.turns) {
		s.stop()
		return true, nil
	}
	s.taken++
	switch s.turns[s.taken-1] {
	case 'w':
		return true, nil
	case 'e':
		return false, errLog
	case 'p':
		must.Never("a sum of %d", -1)
	}
	return false, nil
}

// wait is a log that moves after a minute.
func (s *script) wait(ctx context.Context) error {
	s.waits++
	if s.turns[s.taken-1] == 'W' {
		return errLog
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return nil
	}
}

// play runs a script in a bubble with its own clock and gives what was logged and counted.
func play(t *testing.T, turns string) (s *script, logged, metrics string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s = &script{turns: turns, began: time.Now(), stop: stop}
		m := obs.NewEngine("test")
		run.Loop(ctx, slog.New(slog.NewTextHandler(&out, nil)), m, "rater", s.step, s.wait)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		metrics = w.Body.String()
	})
	return s, out.String(), metrics
}

// gaps are the times between the steps.
func gaps(s *script) (all []time.Duration) {
	for i := 1; i < len(s.at); i++ {
		all = append(all, s.at[i]-s.at[i-1])
	}
	return all
}

func TestLoopPaces(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	for _, c := range []struct {
		name, turns string
		want        []time.Duration
		waits       int
	}{
		{"work goes on at once", "wwww", []time.Duration{0, 0, 0, 0}, 0},
		{"idle waits for the log", "wiwi", []time.Duration{0, m, 0, m}, 2},
		{
			"errors wait longer each time, up to half a minute", "eeeeeeeeee",
			[]time.Duration{250 * ms, 500 * ms, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s},
			0,
		},
		{"work resets the patience", "eewe", []time.Duration{250 * ms, 500 * ms, 0, 250 * ms}, 0},
		{"a good idle step resets it too", "eeie", []time.Duration{250 * ms, 500 * ms, m, 250 * ms}, 1},
		{"a log that cannot be waited for is an error", "WWiW", []time.Duration{250 * ms, 500 * ms, m, 250 * ms}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, _ := play(t, c.turns)
			if diff := cmp.Diff(c.want, gaps(got)); diff != "" || got.waits != c.waits {
				t.Errorf("waited %d times, want %d; between steps (-want +got):\n%s", got.waits, c.waits, diff)
			}
		})
	}
}

func TestLoopTells(t *testing.T) {
	_, logged, metrics := play(t, "wwieW")
	for _, want := range []string{
		`level=ERROR msg="the service starts again" service=rater error="the log is not there" in=250ms`,
		`error="wait for the log: the log is not there" in=500ms`,
	} {
		if !strings.Contains(logged, want) {
			t.Errorf("log\n%s\nlacks %s", logged, want)
		}
	}
	for result, n := range map[string]string{"worked": "2", "idle": "1", "error": "2"} {
		if want := `gpuhour_steps_total{result="` + result + `",service="rater"} ` + n + "\n"; !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestLoopEndsAtABrokenAssertion: no step follows, nothing panics, and a person is told.
func TestLoopEndsAtABrokenAssertion(t *testing.T) {
	s, logged, metrics := play(t, "wpw")
	if s.taken != 2 {
		t.Errorf("%d turns were taken, want 2", s.taken)
	}
	if !strings.Contains(logged, "please report this") || !strings.Contains(logged, `service=rater error="assertion broken: a sum of -1"`) {
		t.Errorf("log %s", logged)
	}
	if !strings.Contains(metrics, `{result="broken",service="rater"} 1`) {
		t.Error("the broken turn is not counted")
	}
}

func TestLoopEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		step run.Step
		wait func(context.Context) error
	}{
		"while it waits": {
			func(context.Context) (bool, error) { return false, nil },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		},
		"while it is patient": {
			func(context.Context) (bool, error) { return false, errLog },
			func(context.Context) error { return nil },
		},
		"in a step": {
			func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() },
			func(context.Context) error { return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const life = 45*time.Second + 123*time.Millisecond
				ctx, stop := context.WithTimeout(t.Context(), life)
				defer stop()
				var out bytes.Buffer
				began := time.Now()
				run.Loop(ctx, slog.New(slog.NewTextHandler(&out, nil)), obs.NewEngine("test"), "rater", c.step, c.wait)
				if took := time.Since(began); took != life {
					t.Errorf("the loop ended after %v, want %v", took, life)
				}
				if strings.Contains(out.String(), "context") {
					t.Errorf("the end of the context is logged as an error: %s", out.String())
				}
			})
		})
	}
}

// TestLoopPassesOtherPanicsOn: what the program did before them is unknown.
func TestLoopPassesOtherPanicsOn(t *testing.T) {
	defer func() {
		if p := recover(); p != "other" {
			t.Errorf("recovered %v", p)
		}
	}()
	run.Loop(t.Context(), slog.New(slog.DiscardHandler), obs.NewEngine("test"), "rater",
		func(context.Context) (bool, error) { panic("other") }, nil)
}
