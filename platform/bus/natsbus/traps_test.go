package natsbus

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// plain is a server as it comes, with a stream as it comes.
func plain(t *testing.T) (*server.Server, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxMsgs: 2, AllowAtomicPublish: true}); err != nil {
		t.Fatal(err)
	}
	return s, nc, js
}

// TestTraps shows what JetStream does to who does not know it; the test that shows our answer is named beside it.
func TestTraps(t *testing.T) {
	s, nc, js := plain(t)
	if c := s.JetStreamConfig(); c.SyncAlways || c.SyncInterval != 2*time.Minute {
		t.Errorf("synced always %v, every %v; acknowledged messages of two minutes were at risk", c.SyncAlways, c.SyncInterval)
	} // TestSyncsAlways; for a server by address TestNATSConf in cmd/gpuhour

	for range 3 {
		if _, err := js.Publish(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if first := stream.CachedInfo().State.FirstSeq; first != 2 {
		t.Errorf("the stream begins at %d; a full one dropped its oldest message", first)
	} // TestFullStoreRefuses

	if _, err := js.Publish(t.Context(), "s", nil, jetstream.WithMsgID("twice")); err != nil {
		t.Fatal(err)
	}
	batch := func(seq, id string, commit bool) *nats.Msg {
		m := &nats.Msg{Subject: "s", Header: nats.Header{}}
		m.Header.Set(headerBatch, "b")
		m.Header.Set(headerBatchSeq, seq)
		m.Header.Set(jetstream.MsgIDHeader, id)
		if commit {
			m.Header.Set(headerBatchCommit, "1")
		}
		return m
	}
	if _, err := nc.RequestMsg(batch("1", "new", false), requestTimeout); err != nil {
		t.Fatal(err)
	}
	answer, err := nc.RequestMsg(batch("2", "twice", true), requestTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeAck(answer.Data); !isCode(err, 10201) {
		t.Errorf("a batch with a message that is there already: %v; want error 10201 for all of it", err)
	} // TestPublicationsCarryNoMessageID

	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Error(err)
	}
	if err := js.DeleteStream(t.Context(), "S"); err != nil {
		t.Error(err)
	} // TestFactsCannotGo
}

// TestPublicationsCarryNoMessageID: the same batch may be published again after the server forgot it, or before, and what
// is right is decided by expectations and by keys.
func TestPublicationsCarryNoMessageID(t *testing.T) {
	e := start(t, Options{})
	batch := []bus.Publication{{Subject: "gh.usage.1.n", Data: []byte("same")}, {Subject: "gh.usage.1.n", Data: []byte("same")}}
	for range 2 {
		if _, err := e.PublishBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := e.js.Stream(t.Context(), bus.Usage)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(4) {
		m, err := stream.GetMsg(t.Context(), seq+1)
		if err != nil || m.Header.Get(jetstream.MsgIDHeader) != "" {
			t.Errorf("message %d has the headers %v, %v", seq+1, m.Header, err)
		}
	}
}

// TestAddressesShowNoPassword in errors, which go into logs.
func TestAddressesShowNoPassword(t *testing.T) {
	for address, want := range map[string]string{
		"nats://127.0.0.1:1":                      "nats://127.0.0.1:1",
		"nats://u:secret@127.0.0.1:1":             "nats://u:xxxxx@127.0.0.1:1",
		"nats://u:secret@a:1, nats://v:secret@b:": "nats://u:xxxxx@a:1,nats://v:xxxxx@b:",
		"u:secret@127.0.0.1:1":                    "nats://u:xxxxx@127.0.0.1:1",
		"nats://u:%zzsecret@127.0.0.1:1":          "(not an address)",
	} {
		if got := redacted(address); got != want {
			t.Errorf("%s is shown as %s; want %s", address, got, want)
		}
	}
	_, err := Connect(t.Context(), "nats://u:secret@127.0.0.1:1", ConnectOptions{})
	wantError(t, err, "connect to NATS at nats://u:xxxxx@127.0.0.1:1")
}
