package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestADriverThatHangsHoldsNobody: neither a person who interrupts, nor for ever one who waits.
func TestADriverThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hangs := func() (int, error) { <-release; return 1, nil }
		began := time.Now()
		if _, err := patiently(t.Context(), time.Minute, hangs); !errors.Is(err, errSilent) || time.Since(began) != time.Minute {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if _, err := patiently(ctx, time.Minute, hangs); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute+time.Second {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		if n, err := patiently(t.Context(), time.Minute, func() (int, error) { return 7, nil }); n != 7 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	})
}
