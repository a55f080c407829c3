package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/ingest"
)

func ingestCommand() *cobra.Command {
	var o ingest.Options
	var queueMiB int64
	c := &cobra.Command{
		Use:   "ingest",
		Short: "Take usage from thousands of nodes and commit it together, against NATS by address",
		Long: `The ingest takes the batches of nodes that publish through it, stores those of many nodes as one
atomic batch, and answers each node once its batches are synced. It holds nothing itself: any number
of them may run at once, and one that is killed loses nothing.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			if cfg.NATS.URL == "" {
				return errors.New("ingest needs --nats-url: it serves nodes of other machines, which cannot reach the server inside `gpuhour serve`")
			}
			if o.Lanes < 1 || o.Lanes > maxLanes || queueMiB < 1 {
				return fmt.Errorf("--lanes %d, --queue-mib %d; write 1 to %d lanes and at least 1 MiB", o.Lanes, queueMiB, maxLanes)
			}
			o.QueueBytes = queueMiB << 20
			return serveIngest(c.Context(), cfg, o)
		},
	}
	config.Flags(c.Flags())
	for _, name := range []string{"clickhouse-database", "clickhouse-url", "data", "invoice-grace", "invoice-series", "nats-listen"} {
		c.Flags().Lookup(name).Hidden = true
	}
	c.Flags().IntVar(&o.Lanes, "lanes", 3, "commits under way at once")
	c.Flags().DurationVar(&o.Linger, "linger", 2*time.Millisecond, "how long a commit waits for more nodes; below 0: not at all")
	c.Flags().Int64Var(&queueMiB, "queue-mib", 256, "requests held at once; beyond it nodes are told to send again later")
	return c
}

// maxLanes of one process: a server takes 50 atomic batches at a time for a stream.
const maxLanes = 16

// serveIngest runs an ingest until ctx ends, and its metrics.
func serveIngest(ctx context.Context, cfg config.Config, o ingest.Options) (err error) {
	if o.Logger, err = obs.Logger(os.Stderr, cfg.Log.Level, cfg.Log.Format); err != nil {
		return err
	}
	log, err := connectPatiently(ctx, cfg, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	metrics := obs.NewMetrics(gpuhour.Version)
	in := ingest.New(log, metrics.Ingest(), o)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if cfg.HTTP.Listen != "" {
		running.Go(func() {
			if err := metrics.Serve(ctx, cfg.HTTP.Listen); err != nil {
				o.Logger.Error("metrics are not served", "error", err)
			}
		})
	}
	defer metrics.Ready(false)
	return in.Run(ctx, readyDoor{log, func() {
		metrics.Ready(true)
		o.Logger.Info("taking usage from nodes", "lanes", o.Lanes)
	}})
}

// readyDoor tells when requests come in.
type readyDoor struct {
	ingest.Door
	ready func()
}

// Serve implements ingest.Door.
func (d readyDoor) Serve(subject, name string, take func(string, []byte, func([]byte) error)) (stop func(context.Context) error, err error) {
	if stop, err = d.Door.Serve(subject, name, take); err == nil {
		d.ready()
	}
	return stop, err
}

// connectPatiently waits for a server that is started later, and says so.
func connectPatiently(ctx context.Context, cfg config.Config, log *slog.Logger) (*natsbus.Bus, error) {
	n := cfg.NATS
	options := natsbus.ConnectOptions{
		Streams: natsbus.StreamOptions{Replicas: n.Replicas},
		Access:  natsbus.Access{Creds: n.Creds, NKey: n.NKey, CA: n.TLSCA, Cert: n.TLSCert, Key: n.TLSKey},
		NATS: []nats.Option{nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("nats: " + err.Error())
		})},
	}
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		b, err := natsbus.Connect(ctx, n.URL, options)
		if err == nil || ctx.Err() != nil {
			return b, err
		}
		log.Warn("waiting for NATS", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
