package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
			if o.Lanes < 1 || o.Lanes > maxLanes || queueMiB < 1 || queueMiB > maxQueueMiB || o.Linger > maxLinger {
				return fmt.Errorf("--lanes %d, --queue-mib %d, --linger %v; write 1 to %d lanes, 1 to %d MiB, and at most %v, which every node waits",
					o.Lanes, queueMiB, o.Linger, maxLanes, maxQueueMiB, maxLinger)
			}
			if o.Linger == 0 {
				o.Linger = -1 // what a person writes is meant
			}
			o.QueueBytes = queueMiB << 20
			if o.Logger, err = obs.Logger(c.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format); err != nil {
				return err
			}
			return serveIngest(c.Context(), cfg, o)
		},
	}
	config.Flags(c.Flags())
	for _, name := range []string{"clickhouse-database", "clickhouse-url", "data", "invoice-grace", "invoice-series", "nats-listen"} {
		c.Flags().Lookup(name).Hidden = true
	}
	c.Flags().IntVar(&o.Lanes, "lanes", 3, "commits under way at once")
	c.Flags().DurationVar(&o.Linger, "linger", 2*time.Millisecond, "how long a commit waits for more nodes; 0: not at all")
	c.Flags().Int64Var(&queueMiB, "queue-mib", 256, "requests held at once; beyond it nodes are told to send again later")
	return c
}

// Bounds of what a person may ask for.
const (
	maxLanes    = 16          // of one process: a server takes 50 atomic batches at a time for a stream
	maxQueueMiB = 1 << 16     // 64 GiB: more is a mistake in the unit
	maxLinger   = time.Second // a node waits ten for its answer
)

// serveIngest runs an ingest until ctx ends, and its metrics.
func serveIngest(ctx context.Context, cfg config.Config, o ingest.Options) (err error) {
	metrics := obs.NewMetrics(gpuhour.Version)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if cfg.HTTP.Listen != "" { // before the server is reached: who waits for it is alive, and not ready
		running.Go(func() {
			if err := metrics.Serve(ctx, cfg.HTTP.Listen); err != nil {
				o.Logger.Error("metrics are not served", "error", err)
			}
		})
	}
	log, err := gpuhour.DialLog(ctx, cfg, gpuhour.Options{Logger: o.Logger}, natsbus.ConnectOptions{
		Link: func(broken error) { linked(metrics, o.Logger, broken) },
		NATS: []nats.Option{nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Logger.Error("nats: " + err.Error())
		})},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	defer context.AfterFunc(ctx, func() { metrics.Ready(false) })()
	in := ingest.New(log, metrics.Ingest(), o)
	return in.Run(ctx, readyDoor{log, func() {
		metrics.Ready(true)
		o.Logger.Info("taking usage from nodes", "lanes", o.Lanes)
	}})
}

// linked tells a person, and /readyz, whether nodes can reach this ingest.
func linked(metrics *obs.Metrics, log *slog.Logger, broken error) {
	metrics.Ready(broken == nil)
	if broken != nil {
		log.Error("the connection to NATS broke; nodes keep their batches, and it is tried again", "error", broken)
		return
	}
	log.Info("connected to NATS again, taking usage from nodes")
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
