package live

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuhour/gpuhour/core/usage"
)

func TestMachineClocksRunTogether(t *testing.T) {
	a := Machine{}.Now()
	if err := (Machine{}).Sleep(t.Context(), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b := Machine{}.Now()
	if d := b.Mono - a.Mono; d < 20*time.Millisecond || b.Boot-a.Boot < d-notable {
		t.Fatalf("20 ms are %s monotonic and %s with sleep", d, b.Boot-a.Boot)
	}
	if second(b) < firstSet {
		t.Fatalf("this machine's clock shows %s", b.Wall)
	}
}

func TestEvidenceFromTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		state int
		err   error
		timex unix.Timex
		want  usage.ClockEvidence
	}{
		"chrony": {
			unix.TIME_OK, nil,
			unix.Timex{Offset: -1500, Maxerror: 2000, Status: unix.STA_NANO | unix.STA_PLL},
			usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -1500, ErrorBoundNano: 2_000_000},
		},
		"microseconds": {
			unix.TIME_INS, nil,
			unix.Timex{Offset: 12, Maxerror: 1},
			usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: 12_000, ErrorBoundNano: 1000},
		},
		"nobody": {
			unix.TIME_ERROR, nil,
			unix.Timex{Maxerror: 16_000_000, Status: unix.STA_UNSYNC},
			usage.ClockEvidence{State: usage.ClockFree, ErrorBoundNano: 16_000_000_000},
		},
		"never set, though the kernel runs well": {
			unix.TIME_OK, nil,
			unix.Timex{Maxerror: 3, Status: unix.STA_UNSYNC},
			usage.ClockEvidence{State: usage.ClockFree, ErrorBoundNano: 3000},
		},
		"an error of the kernel's clock": {
			unix.TIME_ERROR, nil,
			unix.Timex{Maxerror: 3},
			usage.ClockEvidence{State: usage.ClockFree, ErrorBoundNano: 3000},
		},
		"a sandbox forbids the call: nothing is known": {
			0, unix.EPERM,
			unix.Timex{},
			usage.ClockEvidence{State: usage.ClockUnknown},
		},
	} {
		if got := evidence(c.state, c.err, &c.timex); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestNobodySleepsLongerThanASecond: the clock may be set meanwhile.
func TestNobodySleepsLongerThanASecond(t *testing.T) {
	l := timeline{tick: firstSet + 100, begun: true}
	for behind, want := range map[time.Duration]time.Duration{
		-1100 * time.Millisecond: 0, -time.Second: 0, -300 * time.Millisecond: 700 * time.Millisecond, 200 * time.Millisecond: time.Second,
	} {
		if got := l.wait(Instant{Wall: at(l.tick).Add(-behind)}); got != want {
			t.Errorf("%s behind the last tick it waits %s, want %s", behind, got, want)
		}
	}
}

func TestBootIDStaysTheSame(t *testing.T) {
	a, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := BootID(); err != nil || a != b || len(a) != 36 {
		t.Fatalf("boot ids %q and %q, %v", a, b, err)
	}
}
