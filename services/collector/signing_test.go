package collector_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// signer signs with a key of one byte.
type signer byte

func (s signer) key() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(s)}, ed25519.SeedSize))
}

func (s signer) Sign(b *usage.Batch) error { return trust.Sign(s.key(), b) }

func (s signer) enrolled(seq uint64) []fact.Fact {
	public := fact.PublicKey(s.key().Public().(ed25519.PublicKey))
	return []fact.Fact{
		{Seq: seq, Key: "a", Body: &fact.NodeEnrolled{Node: "a", PublicKey: public, By: "ops"}},
		{Seq: seq, Key: "b", Body: &fact.NodeEnrolled{Node: "b", PublicKey: public, By: "ops"}},
	}
}

// signedBy counts the batches that a key signed; those without a signature are a failure.
func signedBy(t *testing.T, s signer, batches []usage.Batch) (n int) {
	t.Helper()
	keys := trust.Of(s.enrolled(1))
	for i := range batches {
		if len(batches[i].Signature) == 0 {
			t.Fatalf("batch %d is not signed", i)
		}
		if keys.Judge(&batches[i], 1, span.Open) == nil {
			n++
		}
	}
	return n
}

// TestBacklogIsSignedWithTheKeyOfItsTime: a batch is signed when it is published and not before, so what waits through a change of
// keys has the new one, and the spool never holds a signature.
func TestBacklogIsSignedWithTheKeyOfItsTime(t *testing.T) {
	log, path := &stream{}, t.TempDir()
	sp := openSpool(t, path)
	cfg := config(1)
	cfg.Signer = signer(1)
	e := collector.New(cfg, twoNodes(), sp, log)
	for at := start; at < start+60; at++ {
		check(t, e.Step(t.Context(), at))
	}
	before := len(log.held)
	log.fault = func() fault { return lostCall }
	for at := start + 60; at < start+120; at++ {
		if err := e.Step(t.Context(), at); err != nil && !errors.Is(err, collector.ErrAmbiguous) {
			t.Fatal(err)
		}
	}
	if err := e.Stop(t.Context()); !errors.Is(err, collector.ErrAmbiguous) {
		t.Fatal(err)
	}
	waiting, err := sp.Unsent(1000, 1<<20)
	check(t, err)
	if len(waiting) == 0 {
		t.Fatal("nothing waits")
	}
	for _, b := range waiting {
		if b.Signature != nil || b.Seed != nil {
			t.Fatalf("the spool holds a signature of %s run %d sequence %d", b.Node, b.Run, b.Seq)
		}
	}
	check(t, sp.Close())

	log.fault = nil
	sp = openSpool(t, path)
	cfg.Signer = signer(2)
	e = collector.New(cfg, twoNodes(), sp, log)
	run(t, e, start+120, start+180)
	gapless(t, log.held)
	equal(t, wanted(start, start+180), counted(t, log.held))
	equal(t, before, signedBy(t, 1, log.held))
	equal(t, len(log.held)-before, signedBy(t, 2, log.held))
	if len(waiting) >= len(log.held)-before {
		t.Errorf("%d batches have the new key, %d had waited", len(log.held)-before, len(waiting))
	}
	check(t, sp.Close())
}

// TestAdoptedWhicheverKeySignedIt: a batch whose answer was lost is found in the log although the collector has another key by now.
func TestAdoptedWhicheverKeySignedIt(t *testing.T) {
	log, path := &stream{}, t.TempDir()
	sp := openSpool(t, path)
	cfg := config(1)
	cfg.Signer = signer(1)
	e := collector.New(cfg, twoNodes(), sp, log)
	log.fault = func() fault { return died }
	at := start
	for ; len(log.held) == 0; at++ {
		if err := e.Step(t.Context(), at); err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
	}
	check(t, sp.Close())
	stored := append([]usage.Batch(nil), log.held...)

	log.fault = nil
	sp = openSpool(t, path)
	cfg.Signer = signer(2)
	e = collector.New(cfg, twoNodes(), sp, log)
	run(t, e, at, start+30)
	if e.Counters().Adopted == 0 {
		t.Errorf("nothing was adopted: %+v", e.Counters())
	}
	if d := cmp.Diff(stored, log.held[:len(stored)]); d != "" {
		t.Error(d)
	}
	gapless(t, log.held)
	check(t, sp.Close())
}

// keyless cannot sign.
type keyless struct{}

var errNoKey = errors.New("the key is gone")

func (keyless) Sign(*usage.Batch) error { return errNoKey }

// TestWhatCannotBeSignedIsNotPublished: it waits.
func TestWhatCannotBeSignedIsNotPublished(t *testing.T) {
	log := &stream{}
	sp := openSpool(t, t.TempDir())
	cfg := config(1)
	cfg.Signer = keyless{}
	e := collector.New(cfg, twoNodes(), sp, log)
	for at := start; at < start+20; at++ {
		if err := e.Step(t.Context(), at); err != nil && !errors.Is(err, errNoKey) {
			t.Fatal(err)
		}
	}
	if len(log.held) > 0 || sp.Stats().Unsent == 0 {
		t.Errorf("%d batches are in the log, %d wait", len(log.held), sp.Stats().Unsent)
	}
	check(t, sp.Close())
}
