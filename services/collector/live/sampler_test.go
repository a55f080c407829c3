package live_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// told writes a second down: each device that was seen by its name, the others with why not, faults as name!code, and the topology
// in brackets where it is another pointer than before.
func told(readings []collector.Reading, err error, began time.Time) string {
	if err != nil {
		var n *collector.NoAnswer
		if !errors.As(err, &n) {
			return "an error without a reason: " + err.Error()
		}
		return "no answer: " + usage.GapReason(n.Reason).String()
	}
	var words []string
	for _, r := range readings {
		word := r.Device
		if !r.Seen() {
			word += ":" + usage.GapReason(r.Memory.Reason).String()
		} else if r.Energy.Value < began.UnixMilli() {
			word += ":OLD"
		}
		for _, f := range r.Faults {
			word += fmt.Sprintf("!%d", f.Code)
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func names(t *usage.Topology) string {
	var all []string
	for _, d := range t.Devices {
		all = append(all, d.Name)
	}
	return " [" + strings.Join(all, " ") + "]"
}

type (
	do       = map[int]func(*livetest.Node)
	hardware struct {
		do   do
		want string
	}
)

func hang(what string) func(*livetest.Node)    { return func(n *livetest.Node) { n.Hang(what) } }
func release(what string) func(*livetest.Node) { return func(n *livetest.Node) { n.Release(what) } }
func fails(err error) func(*livetest.Node)     { return func(n *livetest.Node) { n.OpenFails(err) } }

func none(why usage.Reason) error {
	return &collector.NoAnswer{Reason: why, Err: errors.New("said so")}
}

// units is the table of what may happen to units: what is done before a second, and what each second then says.
func units() map[string]hardware {
	return map[string]hardware{
		"a call that hangs for three seconds": {do{
			1: hang("a"), 2: func(n *livetest.Node) { n.Fault("a", usage.Fault{Kind: usage.FaultXID, Code: 13}) }, 4: release("a"),
		}, "a b [a b]|a:timeout b|a:timeout b|a:timeout b|a!13 b|a b"},
		"a call that hangs for ever": {
			do{1: hang("b")},
			"a b [a b]|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout|a b:timeout",
		},
		"a call that comes back in the middle of a second is not that second's answer": {
			do{1: hang("a"), 2: func(n *livetest.Node) {
				n.Fault("a", usage.Fault{Kind: usage.FaultXID, Code: 13})
				go func() { <-time.After(300 * time.Millisecond); n.Release("a") }()
			}},
			"a b [a b]|a:timeout b|a:timeout b|a!13 b|a b",
		},
		"a GPU that hangs is not listed, and then the same again": {
			do{8: hang("b"), 9: func(n *livetest.Node) { n.Hide("b") }, 12: func(n *livetest.Node) { n.Show("b") }, 23: release("b")},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b:timeout|a b:timeout|a b:timeout|a [a]|a|a|a|a|a|a|a|a|a|a b:timeout [a b]|a b:timeout|a b|a b",
		},
		"a GPU falls off the bus": {
			do{1: func(n *livetest.Node) { n.Fall("b") }},
			"a b [a b]|a b:lost!79|a b:lost",
		},
		"a GPU vanishes, and the next scan finds that": {
			do{3: func(n *livetest.Node) { n.Pull("b") }},
			"a b [a b]|a b|a b|a b:lost|a b:lost|a b:lost|a b:lost|a b:lost|a b:lost|a b:lost|a b:lost|a [a]|a",
		},
		"a GPU appears": {
			do{9: func(n *livetest.Node) { n.Plug("c") }},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b c [a b c]",
		},
		"another GPU in its place": {
			do{9: func(n *livetest.Node) { n.Pull("b"); n.Plug("B") }},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b|a b:lost|a b:lost|B a [B a]",
		},
		"a GPU that hangs vanishes; its last words come late": {
			do{8: hang("b"), 9: func(n *livetest.Node) { n.Fault("b", usage.Fault{Kind: usage.FaultXID, Code: 79}); n.Pull("b") }, 12: release("b")},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b:timeout|a b:timeout|a b:timeout|a [a]|a b:lost!79|a",
		},
		"slices are cut anew": {
			do{1: func(n *livetest.Node) { n.Slice("a", "a/1", "a/2") }, 3: func(n *livetest.Node) { n.Slice("a", "a/3") }},
			"a b [a b]|a b|a a/1 a/2 b [a a/1 a/2 b]|a a/1:lost a/2:lost b|a a/3 b [a a/3 b]",
		},
		"slices are cut anew while the GPU hangs": {
			do{9: hang("a"), 10: func(n *livetest.Node) { n.Slice("a", "a/1") }, 12: release("a")},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b|a:timeout b|a:timeout b|a/1:timeout a:timeout b [a a/1 b]|a a/1 b",
		},
	}
}

// sessions is the same for sessions with the driver, and scans.
func sessions() map[string]hardware {
	return map[string]hardware{
		"the driver is loaded anew": {
			do{1: func(n *livetest.Node) { n.Reload() }},
			"a b [a b]|a:error b:error|a b [a b]|a b",
		},
		"the driver stays away: attempts after 1, 2 and 4 seconds": {
			do{1: func(n *livetest.Node) { n.Reload(); n.OpenFails(fs.ErrNotExist) }, 6: fails(nil)},
			"a b [a b]|a:error b:error|a:error b:error|a:error b:error|a:error b:error|a:error b:error|a:error b:error|a:error b:error|a b [a b]",
		},
		"the driver is loaded anew while a call hangs: the old session is left": {
			do{1: hang("b"), 2: func(n *livetest.Node) { n.Reload() }, 4: release("b")},
			"a b [a b]|a b:timeout|a:error b:timeout|a b:timeout [a b]|a b|a b",
		},
		"the driver of a node without GPUs is loaded anew, and one appears": {
			do{0: func(n *livetest.Node) { n.Pull("a"); n.Pull("b") }, 1: func(n *livetest.Node) { n.Reload(); n.Plug("c") }},
			" []||||||||||||c [c]|c",
		},
		"a container without devices gets them": {
			do{0: fails(none(usage.ReasonNotAvailable)), 2: fails(nil)},
			"no answer: not_available|no answer: not_available|no answer: not_available|a b [a b]",
		},
		"no permission": {do{0: fails(fmt.Errorf("open /dev/x: %w", fs.ErrPermission))}, "no answer: permission|no answer: permission"},
		"no library":    {do{0: fails(none(usage.ReasonNotSupported))}, "no answer: not_supported|no answer: not_supported"},
		"opening hangs": {do{0: hang("open"), 2: release("open")}, "no answer: timeout|no answer: timeout|a b [a b]"},
		"a scan hangs, and what it would find is found later": {
			do{10: func(n *livetest.Node) { n.Hang("scan"); n.Plug("c") }, 14: release("scan")},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b c [a b c]",
		},
		"a scan fails once": {
			do{10: func(n *livetest.Node) { n.ScanFails(errors.New("no")) }, 11: func(n *livetest.Node) { n.ScanFails(nil) }},
			"a b [a b]|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b|a b",
		},
	}
}

func TestFaultsOfHardware(t *testing.T) {
	all := units()
	maps.Copy(all, sessions())
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := livetest.NewNode("a", "b")
				s := live.NewSampler(live.SamplerConfig{Open: node.Open})
				defer func() {
					node.ReleaseAll()
					hung, err := s.Close(t.Context())
					equal(t, 0, hung)
					check(t, err)
				}()
				var topology *usage.Topology
				for i, want := range strings.Split(c.want, "|") {
					if do := c.do[i]; do != nil {
						do(node)
						synctest.Wait()
					}
					began := time.Now()
					readings, err := s.Sample(0, nil)
					if took := time.Since(began); took > 700*time.Millisecond {
						t.Fatalf("second %d took %s", i, took)
					}
					got := told(readings, err, began)
					if s.Topology() != topology {
						topology = s.Topology()
						got += names(topology)
					}
					if got != want {
						t.Fatalf("second %d: got %q, want %q", i, got, want)
					}
					<-time.After(time.Second - time.Since(began))
				}
			})
		})
	}
}

// partly is hardware of one unit, of which not everything could be used.
type partly struct{}

func (partly) Topology() usage.Topology             { return usage.Topology{Devices: []usage.Device{{Name: "a"}}} }
func (p partly) Scan() ([]collector.Unit, error)    { return []collector.Unit{p}, nil }
func (partly) Close() error                         { return nil }
func (partly) Name() string                         { return "page" }
func (partly) Devices() []string                    { return []string{"a"} }
func (partly) Capabilities() []collector.Capability { return nil }
func (partly) Sample(into []collector.Reading) ([]collector.Reading, error) {
	r := livetest.Reading("a", 5)
	r.Faults = []usage.Fault{{Kind: usage.FaultXID, Code: 94}}
	return append(into, r), fmt.Errorf("line 3: %w", collector.ErrPartly)
}

// TestAUnitThatShowsMoreThanIsUsed: its readings stand, and the alarm names it. So does that of a fault.
func TestAUnitThatShowsMoreThanIsUsed(t *testing.T) {
	var said strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s := live.NewSampler(live.SamplerConfig{
			Open: func() (collector.Hardware, error) { return partly{}, nil }, Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
		readings, err := s.Sample(0, nil)
		if err != nil || len(readings) != 1 || !readings[0].Seen() {
			t.Fatalf("%+v, %v", readings, err)
		}
		synctest.Wait()
		if st := s.Stats(); st.Errors != 0 || st.Alarms["unit_partly"] != 1 || !strings.Contains(said.String(), "line 3") ||
			st.Alarms["fault"] != 1 || !strings.Contains(said.String(), "device=a fault=xid code=94") {
			t.Errorf("%+v, %s", st, said.String())
		}
		_, err = s.Close(t.Context())
		check(t, err)
	})
}
