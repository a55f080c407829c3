package trust_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

const minute span.Minute = 29_536_320

// key is a private key drawn from one byte.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) fact.PublicKey { return fact.PublicKey(key(n).Public().(ed25519.PublicKey)) }

// batch is a small one of two devices.
func batch(node string) *usage.Batch {
	b := &usage.Batch{
		Node: node, Boot: "b1", Run: 3, Seq: 1, PreviousRun: 2, PreviousSeq: 360, Minute: minute, Spoken: 0x3ff,
		Clock:    usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -1_200, ErrorBoundNano: 900},
		Gaps:     []usage.Gap{{From: minute.Start() - 60, To: minute.Start(), Reason: usage.GapStopped}, {Device: "GPU-1", From: minute.Start() + 3, To: minute.Start() + 4, Reason: usage.GapTimeout}},
		Topology: &usage.Topology{Source: "nvml 13.2", Driver: "570.86", Devices: []usage.Device{{Name: "GPU-0", Model: "H100", Serial: "7", PCI: "0000:3b:00.0", MemoryBytes: 85 << 30}}},
	}
	for i := range 2 {
		block := usage.Block{Device: fmt.Sprintf("GPU-%d", i), Seen: 0x3f7}
		block.Seen.Each(func(s int) { block.Busy[s] = uint8(10*i + s); block.Power.Set(s, int64(300_000+s)) })
		b.Blocks = append(b.Blocks, block.Append(nil))
	}
	return b
}

func signed(t testing.TB, node string, n byte) *usage.Batch {
	t.Helper()
	b := batch(node)
	if err := trust.Sign(key(n), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func enrol(seq uint64, node string, n byte) fact.Fact {
	return fact.Fact{Seq: seq, Key: fmt.Sprint("enrol/", seq), Body: &fact.NodeEnrolled{Node: node, PublicKey: public(n), By: "ops"}}
}

func revoke(seq uint64, node string, n byte) fact.Fact {
	return fact.Fact{Seq: seq, Key: fmt.Sprint("revoke/", seq), Body: &fact.NodeRevoked{Node: node, PublicKey: public(n), By: "ops"}}
}

func TestVerdicts(t *testing.T) {
	unsigned := batch("n")
	altered := signed(t, "n", 1)
	altered.Spoken |= 1 << 20
	otherNode := signed(t, "m", 1)
	otherNode.Node = "n"
	ahead := signed(t, "n", 1)
	rotation := []fact.Fact{enrol(10, "n", 1), enrol(20, "n", 2), revoke(30, "n", 1)}
	for name, c := range map[string]struct {
		facts []fact.Fact
		batch *usage.Batch
		upTo  uint64
		want  string // part of the detail; "" when it is measured
	}{
		"no keys, unsigned":                   {nil, unsigned, 100, ""},
		"no keys, signed":                     {nil, signed(t, "n", 1), 100, ""},
		"another node's keys":                 {[]fact.Fact{enrol(10, "m", 1)}, unsigned, 100, ""},
		"only revoked, never enrolled":        {[]fact.Fact{revoke(10, "n", 1)}, signed(t, "n", 1), 100, ""},
		"before the enrolment":                {rotation, unsigned, 9, ""},
		"in the enrolment's block":            {rotation, signed(t, "n", 1), 10, ""},
		"unsigned":                            {rotation, unsigned, 10, "run 3 sequence 1 is not signed, and the node is enrolled"},
		"new key before it is enrolled":       {rotation, signed(t, "n", 2), 19, "no key that is enrolled of the node, or it was altered"},
		"both keys, the old one":              {rotation, signed(t, "n", 1), 29, ""},
		"both keys, the new one":              {rotation, signed(t, "n", 2), 29, ""},
		"revoked":                             {rotation, signed(t, "n", 1), 30, "is signed with key " + public(1).Fingerprint() + ", which fact 30 revoked"},
		"after the revocation, the new one":   {rotation, signed(t, "n", 2), 30, ""},
		"unsigned after all":                  {rotation, unsigned, 99, "is not signed"},
		"wrong key":                           {rotation, signed(t, "n", 3), 99, "no key that is enrolled"},
		"altered":                             {rotation, altered, 10, "or it was altered afterwards"},
		"of another node":                     {rotation, otherNode, 10, "no key that is enrolled"},
		"the last key revoked, unsigned":      {[]fact.Fact{enrol(10, "n", 1), revoke(11, "n", 1)}, unsigned, 11, "is not signed"},
		"the last key revoked, signed":        {[]fact.Fact{enrol(10, "n", 1), revoke(11, "n", 1)}, signed(t, "n", 1), 11, "which fact 11 revoked"},
		"enrolled again after a revocation":   {[]fact.Fact{enrol(10, "n", 1), revoke(11, "n", 1), enrol(12, "n", 1)}, signed(t, "n", 1), 12, "which fact 11 revoked"},
		"revoked before it is enrolled":       {[]fact.Fact{revoke(5, "n", 1), enrol(10, "n", 1)}, signed(t, "n", 1), 10, "which fact 5 revoked"},
		"enrolled twice":                      {[]fact.Fact{enrol(10, "n", 1), enrol(20, "n", 1)}, signed(t, "n", 1), 10, ""},
		"key of one node enrolled of another": {[]fact.Fact{enrol(10, "m", 1), enrol(11, "n", 2)}, signed(t, "n", 1), 11, "no key that is enrolled"},
	} {
		t.Run(name, func(t *testing.T) {
			got := trust.Of(c.facts).Judge(c.batch, c.upTo, minute.End())
			switch {
			case c.want == "" && got != nil:
				t.Errorf("quarantined: %v", got)
			case c.want != "" && (got == nil || got.Reason != usage.BadSignature || got.Node != "n" || !strings.Contains(got.Detail, c.want)):
				t.Errorf("%v; want it to say %s", got, c.want)
			}
		})
	}
	if q := trust.New().Judge(ahead, 0, minute.Start()-61); q == nil || q.Reason != usage.AheadOfTick {
		t.Errorf("a batch of the future: %v", q)
	}
	if q := trust.New().Judge(ahead, 0, span.Open); q != nil {
		t.Errorf("a batch in a block without end: %v", q)
	}
}

// TestRepeatsChangeNothing: a key used twice is one statement, the first.
func TestRepeatsChangeNothing(t *testing.T) {
	again := revoke(12, "n", 1)
	again.Key = "enrol/10"
	keys := trust.Of([]fact.Fact{enrol(10, "n", 1), again, enrol(13, "n", 2)})
	want := []trust.Key{{Public: public(2), Enrolled: 13}, {Public: public(1), Enrolled: 10}}
	if d := cmp.Diff(want, keys.Node("n")); d != "" {
		t.Error(d)
	}
}

// TestVerdictsAgreeWithTheirStory draws statements and compares each verdict with a walk over the story as a person would do it.
func TestVerdictsAgreeWithTheirStory(t *testing.T) {
	ready := map[[2]string]*usage.Batch{}
	for _, node := range []string{"n", "m"} {
		ready[[2]string{node, ""}] = batch(node)
		for n := range byte(3) {
			ready[[2]string{node, string('0' + n)}] = signed(t, node, n+1)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var facts []fact.Fact
		for i := range rapid.IntRange(0, 8).Draw(t, "statements") {
			node, n := rapid.SampledFrom([]string{"n", "m"}).Draw(t, "node"), rapid.ByteRange(1, 3).Draw(t, "key")
			if rapid.Bool().Draw(t, "enrol") {
				facts = append(facts, enrol(uint64(i+1), node, n))
			} else {
				facts = append(facts, revoke(uint64(i+1), node, n))
			}
		}
		keys := trust.Of(facts)
		for at := range uint64(10) {
			for who, b := range ready {
				enrolled, good, gone := false, false, map[fact.PublicKey]bool{}
				for _, f := range facts {
					if x, ok := f.Body.(*fact.NodeRevoked); ok && x.Node == who[0] && f.Seq <= at {
						gone[x.PublicKey] = true
					}
				}
				for _, f := range facts {
					if x, ok := f.Body.(*fact.NodeEnrolled); ok && x.Node == who[0] && f.Seq <= at {
						enrolled = true
						good = good || who[1] != "" && x.PublicKey == public(who[1][0]-'0'+1) && !gone[x.PublicKey]
					}
				}
				if taken := keys.Judge(b, at, minute.End()) == nil; taken != (!enrolled || good) {
					t.Fatalf("node %s key %q as of fact %d: taken is %v", who[0], who[1], at, taken)
				}
			}
		}
	})
}

// TestSameKeySameBytes: published again, a batch is the same; with another key it is another.
func TestSameKeySameBytes(t *testing.T) {
	a, b, c := signed(t, "n", 1), signed(t, "n", 1), signed(t, "n", 2)
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	if bytes.Equal(a.Seed, c.Seed) || bytes.Equal(a.Signature, c.Signature) {
		t.Error("two keys give one seed or signature")
	}
	for name, edit := range map[string]func(*usage.Batch){
		"nodes":     func(b *usage.Batch) { b.Node = "m" },
		"boots":     func(b *usage.Batch) { b.Boot = "b2" },
		"runs":      func(b *usage.Batch) { b.Run++ },
		"sequences": func(b *usage.Batch) { b.Seq++ },
	} {
		next := batch("n")
		if edit(next); bytes.Equal(trust.Seed(key(1), a), trust.Seed(key(1), next)) {
			t.Errorf("batches of two %s have one seed, and so their blocks one salt", name)
		}
	}
}

func TestSigner(t *testing.T) {
	keys := trust.Of([]fact.Fact{enrol(10, "n", 1), revoke(11, "n", 1), enrol(12, "n", 2)})
	if k, ok := keys.Signer(signed(t, "n", 1)); !ok || k.Public != public(1) || k.Revoked != 11 {
		t.Errorf("%+v, %v", k, ok)
	}
	if k, ok := keys.Signer(batch("n")); ok {
		t.Errorf("an unsigned batch has signer %+v", k)
	}
	if k, ok := keys.Signer(signed(t, "n", 3)); ok {
		t.Errorf("a stranger's batch has signer %+v", k)
	}
}

// BenchmarkJudge is what a verdict costs: nothing but a look-up for a node without keys. The batch is one of eight devices and ten seconds.
func BenchmarkJudge(b *testing.B) {
	large := batch("n")
	large.Blocks = nil
	for i := range 8 {
		block := usage.Block{Device: fmt.Sprintf("GPU-0000000%d-0000-0000-0000-000000000000", i), Seen: 0x3ff}
		block.Seen.Each(func(s int) {
			block.Busy[s] = uint8(s)
			block.Memory.Set(s, 40<<30+int64(s)<<20)
			block.Power.Set(s, int64(300_000+s*s))
			block.Energy.Set(s, int64(300_000*s))
		})
		large.Blocks = append(large.Blocks, block.Append(nil))
	}
	if err := trust.Sign(key(1), large); err != nil {
		b.Fatal(err)
	}
	for name, facts := range map[string][]fact.Fact{
		"never-enrolled": {enrol(1, "another", 1)},
		"one-key":        {enrol(1, "n", 1)},
		"rotated":        {enrol(1, "n", 2), revoke(2, "n", 2), enrol(3, "n", 1)},
	} {
		keys := trust.Of(facts)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if q := keys.Judge(large, 10, minute.End()); q != nil {
					b.Fatal(q)
				}
			}
		})
	}
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := trust.Sign(key(1), large); err != nil {
				b.Fatal(err)
			}
		}
	})
}
