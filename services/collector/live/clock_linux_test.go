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
		timex unix.Timex
		want  usage.ClockEvidence
	}{
		"chrony": {
			unix.TIME_OK,
			unix.Timex{Offset: -1500, Maxerror: 2000, Status: unix.STA_NANO | unix.STA_PLL},
			usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -1500, ErrorBoundNano: 2_000_000},
		},
		"microseconds": {
			unix.TIME_INS,
			unix.Timex{Offset: 12, Maxerror: 1},
			usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: 12_000, ErrorBoundNano: 1000},
		},
		"nobody": {
			unix.TIME_ERROR,
			unix.Timex{Maxerror: 16_000_000, Status: unix.STA_UNSYNC},
			usage.ClockEvidence{State: usage.ClockFree, ErrorBoundNano: 16_000_000_000},
		},
	} {
		if got := evidence(c.state, &c.timex); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
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
