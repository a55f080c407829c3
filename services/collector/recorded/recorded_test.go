package recorded

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/collector"
)

func TestReplay(t *testing.T) {
	said := func(device string, busy int64) collector.Reading {
		return collector.Reading{Device: device, Busy: collector.Known(busy)}
	}
	s := &Source{
		Window:  span.Span{From: 100, To: 105},
		Slept:   func(at span.Second) bool { return at == 102 },
		Failed:  func(at span.Second) bool { return at == 103 },
		Devices: []Series{Table{100: said("g0", 1), 101: said("g0", 2)}, Table{101: said("g1", 3)}},
	}
	want := map[span.Second][]collector.Reading{
		100: {said("g0", 1)}, 101: {said("g0", 2), said("g1", 3)}, 104: {},
	}
	for range 2 {
		for at := span.Second(99); at < 107; at++ {
			got, err := s.Sample(at, []collector.Reading{})
			switch at {
			case 99, 102, 105, 106:
				if !errors.Is(err, collector.ErrSlept) {
					t.Fatalf("second %d: %v", at, err)
				}
			case 103:
				if err == nil || errors.Is(err, collector.ErrSlept) {
					t.Fatalf("second %d: %v", at, err)
				}
			default:
				if d := cmp.Diff(want[at], got); err != nil || d != "" {
					t.Fatalf("second %d: %v %s", at, err, d)
				}
			}
		}
	}
}
