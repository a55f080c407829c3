package natsbus

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/bustest"
)

func start(t *testing.T, o Options) *Embedded {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestConformanceInProcess(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bus.Bus { return start(t, Options{}) })
}

func TestConformanceOverLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	bustest.Run(t, func(t *testing.T) bus.Bus {
		e := start(t, Options{Port: -1, Password: "secret"})
		b, err := Connect(t.Context(), e.URL(), ConnectOptions{NATS: []nats.Option{nats.UserInfo(user, "secret")}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
