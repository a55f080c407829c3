package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

func collectorCommand() *cobra.Command {
	var node, trace, spoolDir, keyFile string
	var loop bool
	c := &cobra.Command{
		Use:   "collector",
		Short: "Sample this node once a second from a recording and send it to the log",
		Long: `The collector plays a recording at the machine's own clock: CSV with the first line
  ` + recorded.Header + `
Every batch is in the spool before it is sent; what the log did not take is sent again.
This version reads recordings only: it has no source for real GPUs yet, and says so.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if trace == "" {
				return errors.New("--trace: name a recording; this version has no source for real GPUs")
			}
			if node == "" {
				return errors.New("--node: this machine has no name; give one")
			}
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			key, err := nodeKey(cfg, keyFile)
			if err != nil {
				return err
			}
			if spoolDir == "" {
				spoolDir = cfg.Path("spool", node)
			}
			play := recording{node: node, trace: trace, spool: spoolDir, loop: loop, key: key}
			if cfg.NATS.URL == "" {
				return attach(c, func(e *gpuhour.Engine) error { return play.collect(c, e.Bus()) })
			}
			b, err := gpuhour.DialNode(c.Context(), cfg, node)
			if err != nil {
				return err
			}
			return errors.Join(play.collect(c, b), b.Close())
		},
	}
	settings(c)
	host, _ := os.Hostname() // without a name --node is asked for
	c.Flags().StringVar(&node, "node", host, "name of this node")
	c.Flags().StringVar(&trace, "trace", "", "recording to play (CSV)")
	c.Flags().StringVar(&spoolDir, "spool", "", "spool directory; spool/NODE below the data directory when not given")
	c.Flags().StringVar(&keyFile, "key", "", "the node's private key, with which batches are signed; "+nodekey.FileName+" in the data directory where that is there")
	c.Flags().BoolVar(&loop, "loop", false, "begin the recording again when it ends")
	return c
}

// recording is what the collector plays.
type recording struct {
	node, trace, spool string
	loop               bool
	key                *nodekey.Key // nil: batches are not signed
}

func (p recording) collect(c *cobra.Command, b bus.Bus) (err error) {
	node, trace, spoolDir := p.node, p.trace, p.spool
	f, err := os.Open(trace)
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	defer f.Close()
	rec, err := recorded.ReadCSV(trace, f)
	if err != nil {
		return err
	}
	files, err := spool.Dir(spoolDir)
	if err != nil {
		return err
	}
	sp, err := spool.Open(files, spool.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sp.Close()) }()
	for _, n := range sp.Notes() {
		slog.Warn("spool", "note", n)
	}
	start := span.Second(time.Now().Unix())
	source := rec.From(start, p.loop)
	cfg := collector.Config{Boot: "recording", FirstRun: uint64(start), Clock: usage.ClockEvidence{State: usage.ClockUnknown}}
	if p.key != nil {
		cfg.Signer = p.key
		fmt.Fprintf(c.ErrOrStderr(), "signing with key %s\n", p.key.Public().Fingerprint())
	}
	engine := collector.New(cfg, []collector.Node{{Name: node, Source: source}}, sp, buslog.New(b))
	ctx := c.Context()
	fmt.Fprintf(c.ErrOrStderr(), "sampling node %s from %s, once a second; interrupt it to stop\n", node, trace)
	sampling := sampleEverySecond(ctx, engine, source.Window)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(sampling, engine.Stop(stopping)); err != nil {
		return fmt.Errorf("send the last batches: %w; they stay in %s and are sent at the next start", err, spoolDir)
	}
	seen, _ := engine.Samples()
	fmt.Fprintf(c.OutOrStdout(), "%s sampled; the log has %s\n", count(int(seen), "GPU-second"), count(int(engine.Counters().Published), "batch"))
	return nil
}

// sampleEverySecond samples each wall second that is over once, until the recording ends or ctx does. Seconds the process
// slept through are not sampled: they stay a gap. It gives up on what only a person can mend: a broken spool, a cloned node.
func sampleEverySecond(ctx context.Context, engine *collector.Engine, window span.Span) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for at := span.Second(time.Now().Unix()); at < window.To; {
		err := engine.Step(ctx, at)
		switch {
		case errors.Is(err, spool.ErrBroken) || errors.Is(err, collector.ErrCloned):
			return err
		case err != nil && ctx.Err() == nil:
			slog.Error("collector", "error", err)
		}
		for next := at; next <= at; next = span.Second(time.Now().Unix()) {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
		at = span.Second(time.Now().Unix())
	}
	return nil
}
