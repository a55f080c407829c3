package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// site is a log in memory whose server's clock stands.
type site struct {
	t   *testing.T
	bus *membus.Bus
	out bytes.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, bus: membus.New(func() time.Time { return time.Unix(1_772_182_800, 0) })}
}

func (s *site) Bus() bus.Bus { return s.bus }

func (s *site) State(ctx context.Context, facts ...fact.Fact) error {
	return journal.NewWriter(s.bus).State(ctx, facts)
}

// run notes what one command prints, or its error.
func (s *site) run(title string, err error) {
	s.t.Helper()
	if err != nil {
		fmt.Fprintln(&s.out, "gpuhour:", err)
	}
	fmt.Fprintf(&s.out, "--- %s\n\n", title)
}

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func testPublic(n byte) fact.PublicKey {
	return fact.PublicKey(testKey(n).Public().(ed25519.PublicKey))
}

// say publishes a batch of ten seconds; key 0 does not sign.
func (s *site) say(node string, run, seq uint64, at span.Second, key byte, edit func(*usage.Batch)) {
	s.t.Helper()
	mask := span.SecondMask(0x3ff) << (at % 60)
	b := usage.Batch{
		Node: node, Boot: "boot-1", Run: run, Seq: seq, Minute: at.Minute(), Spoken: mask,
		Clock: usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -3_100, ErrorBoundNano: 900_000},
	}
	for i := range 2 {
		block := usage.Block{Device: fmt.Sprintf("GPU-%d", i), Seen: mask, Reason: usage.ReasonTimeout}
		mask.Each(func(second int) {
			block.Busy[second] = uint8(second)
			block.Memory.Set(second, int64(second)<<30)
			block.Power.Set(second, 300_250)
		})
		block.Busy[at%60+2] = usage.BusyUnknown
		block.Faults = []usage.Fault{{Second: uint8(at%60 + 3), Kind: usage.FaultXID, Code: 31}}
		b.Blocks = append(b.Blocks, block.Append(nil))
	}
	if edit != nil {
		edit(&b)
	}
	if key != 0 {
		if err := trust.Sign(testKey(key), &b); err != nil {
			s.t.Fatal(err)
		}
	}
	p, err := codec.EncodeBatch(&b)
	if err == nil {
		_, err = s.bus.Publish(s.t.Context(), p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

const firstSecond span.Second = 1_772_179_200

// TestNodeKeysAreStated: enrolling and revoking, what is told, and that saying it again changes nothing.
func TestNodeKeysAreStated(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	tell := func(node string) statement {
		return statement{node: node, by: "ops-2", note: "rack 4"}
	}
	s.say("gpu-07", 1, 1, firstSecond, 0, nil)
	s.run("list of none", listNodes(ctx, &s.out, s.bus, render.Options{Width: 100}))
	s.run("enrol", enrol(ctx, &s.out, s, tell("gpu-07"), testPublic(1)))
	s.run("enrol again", enrol(ctx, &s.out, s, tell("gpu-07"), testPublic(1)))
	s.run("enrol a key of another node", enrol(ctx, &s.out, s, tell("gpu-08"), testPublic(1)))
	s.run("enrol a second key", enrol(ctx, &s.out, s, tell("gpu-07"), testPublic(2)))
	s.run("revoke an unknown key", revoke(ctx, &s.out, s, tell("gpu-07"), testPublic(3)))
	s.run("revoke of an unknown node", revoke(ctx, &s.out, s, tell("gpu-09"), testPublic(3)))
	s.run("revoke the first", revoke(ctx, &s.out, s, tell("gpu-07"), testPublic(1)))
	s.run("revoke it again", revoke(ctx, &s.out, s, tell("gpu-07"), testPublic(1)))
	s.run("enrol what was revoked", enrol(ctx, &s.out, s, tell("gpu-07"), testPublic(1)))
	s.run("revoke the last", revoke(ctx, &s.out, s, tell("gpu-07"), testPublic(2)))
	s.run("enrol with a bad name", enrol(ctx, &s.out, s, tell("gpu\n08"), testPublic(4)))
	s.run("enrol another node", enrol(ctx, &s.out, s, tell("gpu-08"), testPublic(4)))
	s.run("list", listNodes(ctx, &s.out, s.bus, render.Options{Width: 100}))
	if n, err := s.bus.LastSeq(ctx, bus.Facts); n != 5 || err != nil {
		t.Errorf("the log holds %d facts, %v; want 5", n, err)
	}
	golden(t, "node-keys.golden", s.out.String())
}

// TestNodeShow: keys, the last batch, devices and gaps of nodes in every state.
func TestNodeShow(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	most := 40
	show := func(node string, seconds int64) {
		s.run(fmt.Sprintf("show %s --since %ds --gaps %d", node, seconds, most),
			(&shown{out: &s.out, bus: s.bus, o: render.Options{Width: 100}, node: node, most: most}).show(ctx, seconds))
	}
	show("gpu-07", 3600)
	for i := range uint64(60) {
		at := firstSecond + span.Second(10*i)
		s.say("gpu-07", 1_772_179_200, i+1, at, 1, func(b *usage.Batch) {
			switch i {
			case 0:
				b.PreviousRun, b.PreviousSeq = 7, 99
				b.Gaps = []usage.Gap{{From: at - 500, To: at, Reason: usage.GapRebooted}}
				b.Topology = &usage.Topology{Source: "nvml 13.2", Driver: "570.86", Devices: []usage.Device{
					{Name: "GPU-0", Vendor: "nvidia", Model: "H100 80GB HBM3", Serial: "1650924060039", PCI: "0000:3b:00.0", MemoryBytes: 81_559 << 20},
					{Name: "GPU-1", Vendor: "nvidia", Model: "H100 80GB HBM3", Serial: "1650924060040", PCI: "0000:86:00.0", MemoryBytes: 81_559 << 20},
					{Name: "MIG-1-0", Parent: "GPU-1", Vendor: "nvidia", Model: "H100 80GB HBM3", Profile: "1g.10gb", MemoryBytes: 9_856 << 20},
				}}
			case 30, 31:
				b.Gaps = []usage.Gap{{Device: "GPU-1", From: at, To: at + 10, Reason: usage.GapTimeout}}
			case 50:
				for device := 1; device <= 6; device++ { // two rows: by reason, and two devices are few enough to be named
					why := usage.GapError
					if device == 1 || device == 6 {
						why = usage.GapTimeout
					}
					b.Gaps = append(b.Gaps, usage.Gap{Device: fmt.Sprint("GPU-", device), From: at, To: at + 10, Reason: why})
				}
			}
		})
		s.say("gpu-08", 1, i+1, at, 0, nil) // between them, another node's
	}
	show("gpu-07", 3600)
	if err := s.State(ctx, fact.Fact{Key: "a", Body: &fact.NodeEnrolled{Node: "gpu-07", PublicKey: testPublic(1), By: "ops-2"}}); err != nil {
		t.Fatal(err)
	}
	show("gpu-07", 60)
	if err := s.State(ctx, fact.Fact{Key: "b", Body: &fact.NodeRevoked{Node: "gpu-07", PublicKey: testPublic(1), By: "ops-2", Note: "stolen"}},
		fact.Fact{Key: "c", Body: &fact.NodeEnrolled{Node: "gpu-09", PublicKey: testPublic(2), By: "ops-2"}}); err != nil {
		t.Fatal(err)
	}
	show("gpu-07", 60)
	show("gpu-08", 60)
	show("gpu-09", 60)
	most = 1
	show("gpu-07", 3600)
	golden(t, "node-show.golden", s.out.String())
}

// TestDiscloseAndVerify goes the way of a customer who doubts a batch: any batch of a node can be shown, and what is shown is checked
// without the log.
func TestDiscloseAndVerify(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	if err := s.State(ctx, fact.Fact{Key: "a", Body: &fact.NodeEnrolled{Node: "rack/4", PublicKey: testPublic(1), By: "ops-2"}}); err != nil {
		t.Fatal(err)
	}
	for run := uint64(1); run <= 3; run++ {
		for seq := uint64(1); seq <= 40; seq++ {
			s.say("rack/4", run, seq, firstSecond+span.Second(400*run+10*seq), 1, nil)
			s.say("rack/5", run, seq, firstSecond+span.Second(400*run+10*seq), 0, nil)
		}
	}
	moved(t, nil)
	for run := uint64(1); run <= 3; run++ {
		for seq := uint64(1); seq <= 40; seq++ {
			d, err := disclose(ctx, s.bus, "rack/4", run, seq, "GPU-1")
			if err != nil || d.Run != run || d.Seq != seq {
				t.Fatalf("run %d sequence %d: %+v, %v", run, seq, d, err)
			}
		}
	}
	d, err := disclose(ctx, s.bus, "rack/4", 2, 17, "GPU-1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Bytes()
	if err == nil {
		err = newFile("block.json", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := newFile("block.json", data); err == nil || !strings.Contains(err.Error(), "block.json is there already and stays") {
		t.Errorf("it is overwritten: %v", err)
	}
	for name, edit := range map[string]string{
		"salt.json": `"salt": "A`, "run.json": `"run": 9`, "node.json": `"node": "rack/9`,
	} {
		at := strings.Index(string(data), edit[:strings.Index(edit, ": ")+2])
		if at < 0 {
			t.Fatal(edit)
		}
		changed := string(data[:at]) + edit + string(data[at+len(edit):])
		if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("text.json", []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	calls(t, "verify-block.golden", []string{"verify-block", "block.json"}, []string{"verify-block", "block.json", "--key", testPublic(1).String()},
		[]string{"verify-block", "block.json", "--key", testPublic(2).String()}, []string{"verify-block", "salt.json"}, []string{"verify-block", "run.json"},
		[]string{"verify-block", "node.json"}, []string{"verify-block", "text.json"}, []string{"verify-block", "none.json"})
}

// TestDiscloseRefuses: what cannot be shown, or would prove nothing.
func TestDiscloseRefuses(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	if err := s.State(ctx, fact.Fact{Key: "a", Body: &fact.NodeEnrolled{Node: "rack/4", PublicKey: testPublic(1), By: "ops-2"}}); err != nil {
		t.Fatal(err)
	}
	for run := uint64(1); run <= 3; run++ {
		s.say("rack/4", run, 1, firstSecond, 1, nil)
		s.say("rack/4", run, 2, firstSecond, 2, nil)
		s.say("rack/5", run, 1, firstSecond, 0, nil)
	}
	for name, c := range map[string]struct {
		node     string
		run, seq uint64
		device   string
		want     string
	}{
		"unknown sequence": {"rack/4", 2, 41, "GPU-1", "no batch of run 2 sequence 41 of node rack/4; its last one is of run 3 sequence 2"},
		"unknown run":      {"rack/4", 9, 1, "GPU-1", "no batch of run 9 sequence 1"},
		"unknown node":     {"rack/6", 1, 1, "GPU-1", "no batch of run 1 sequence 1 of node rack/6"},
		"unknown device":   {"rack/4", 1, 1, "GPU-2", `no device "GPU-2"; it holds ["GPU-0" "GPU-1"]`},
		"stranger's":       {"rack/4", 2, 2, "GPU-1", "no key that is stated of node rack/4 signed run 2 sequence 2"},
		"unsigned":         {"rack/5", 1, 1, "GPU-1", "is not signed"},
	} {
		if _, err := disclose(ctx, s.bus, c.node, c.run, c.seq, c.device); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}

func TestBatchName(t *testing.T) {
	if node, run, seq, err := batchName("rack/4/1772/12"); node != "rack/4" || run != 1772 || seq != 12 || err != nil {
		t.Errorf("%s %d %d %v", node, run, seq, err)
	}
	for _, bad := range []string{"", "n", "n/1", "/1/2", "n/x/1", "n/1/-1", "n/1/2/"} {
		if _, _, _, err := batchName(bad); err == nil || !strings.Contains(err.Error(), "write NODE/RUN/SEQ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestKeygen makes a key, uses it, and refuses what is not one.
func TestKeygen(t *testing.T) {
	moved(t, nil)
	made := call(t, "", "node", "keygen", "--data", "d")
	key, err := nodekey.Read(filepath.Join("d", nodekey.FileName))
	if err != nil {
		t.Fatal(made, err)
	}
	if made.code != 0 || !strings.Contains(made.out, key.Public().String()) || !strings.Contains(made.out, key.Public().Fingerprint()) {
		t.Errorf("%v", made)
	}
	if info, err := os.Stat(filepath.Join("d", nodekey.FileName)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if again := call(t, "", "node", "keygen", "--data", "d"); again.code == 0 || !strings.Contains(again.err, "is there already and stays") {
		t.Errorf("it is overwritten: %v", again)
	}
	if of, err := nodekey.Public(filepath.Join("d", nodekey.FileName+nodekey.PublicSuffix)); err != nil || of != key.Public() {
		t.Errorf("the public file gives %v, %v", of, err)
	}
	nkey := call(t, "", "node", "nkey", "--out", "n.nk")
	public := strings.Fields(nkey.out)[len(strings.Fields(nkey.out))-1]
	if p := call(t, "", "node", "permissions", "gpu-07", "--nkey", public); p.code != 0 || !strings.Contains(p.out, "nkey: "+public) || !strings.Contains(p.out, `"gh.usage.`) {
		t.Errorf("%v\n%v", nkey, p)
	}
	calls(t, "node-calls.golden", []string{"node", "permissions", "gpu-07"}, []string{"node", "permissions", "rack 4"},
		[]string{"node", "permissions", "gpu-07", "--nkey", "SUAB"}, []string{"node", "nkey", "--out", "n.nk"},
		[]string{"node", "enrol", "gpu-07", "--by", "ops"}, []string{"node", "enrol", "gpu-07", "--by", "", "--key", testPublic(1).String()},
		[]string{"node", "enrol", "gpu-07", "--by", "ops", "--key", "ed25519:xyz"}, []string{"node", "enrol", "gpu-07", "--by", "ops", "--key", "none.pub"},
		[]string{"node", "enrol", "gpu-07", "--by", "ops", "--key", "d/" + nodekey.FileName}, []string{"node", "revoke", "gpu-07", "--by", "ops"},
		[]string{"node", "show", "gpu-07", "--since", "0"}, []string{"node", "disclose", "gpu-07/1/1"}, []string{"node", "disclose", "gpu-07", "--device", "d", "--out", "o"},
		[]string{"node", "list", "--data", "nothing"}, []string{"node", "nonsense"})
}
