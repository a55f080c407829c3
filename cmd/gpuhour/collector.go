package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

func collectorCommand() *cobra.Command {
	var node, trace, spoolDir string
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
			return attach(c, func(e *gpuhour.Engine) error {
				return collect(c, e, node, trace, spoolDir, loop)
			})
		},
	}
	settings(c)
	host, _ := os.Hostname() // without a name --node is asked for
	c.Flags().StringVar(&node, "node", host, "name of this node")
	c.Flags().StringVar(&trace, "trace", "", "recording to play (CSV)")
	c.Flags().StringVar(&spoolDir, "spool", "", "spool directory; spool/NODE below the data directory when not given")
	c.Flags().BoolVar(&loop, "loop", false, "begin the recording again when it ends")
	return c
}

func collect(c *cobra.Command, e *gpuhour.Engine, node, trace, spoolDir string, loop bool) (err error) {
	if node == "" {
		return errors.New("--node: this machine has no name; give one")
	}
	f, err := os.Open(trace)
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	defer f.Close()
	rec, err := recorded.ReadCSV(trace, f)
	if err != nil {
		return err
	}
	if spoolDir == "" {
		spoolDir = filepath.Join(e.DataDir(), "spool", node)
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
	source := rec.From(start, loop)
	engine := collector.New(collector.Config{
		Boot: "recording", FirstRun: uint64(start), Clock: usage.ClockEvidence{State: usage.ClockUnknown},
	}, []collector.Node{{Name: node, Source: source}}, sp, buslog.New(e.Bus()))
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
