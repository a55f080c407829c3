package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
	"github.com/gpuhour/gpuhour/services/rater"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Check the log, the tables and how far the services are", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return attach(c, func(e *gpuhour.Engine) error {
				findings, bad, err := examine(c.Context(), e)
				if err != nil {
					return err
				}
				for _, f := range findings {
					fmt.Fprintln(c.OutOrStdout(), f)
				}
				if bad > 0 {
					return fmt.Errorf("doctor: %d findings need a person", bad)
				}
				return nil
			})
		},
	}
	config.Flags(c.Flags())
	return c
}

// examine looks at both streams, every service's lag in time, and what was refused.
func examine(ctx context.Context, e *gpuhour.Engine) (findings []string, bad int, err error) {
	note := func(ok bool, what, format string, args ...any) {
		mark := "ok  "
		if !ok {
			mark = "BAD "
			bad++
		}
		findings = append(findings, fmt.Sprintf("%s  %-12s %s", mark, what, fmt.Sprintf(format, args...)))
	}
	for _, stream := range []string{bus.Facts, bus.Usage} {
		last, err := e.Bus().LastSeq(ctx, stream)
		if err != nil {
			return nil, 0, err
		}
		note(true, "log", "%s ends at %d", stream, last)
	}
	var tick codec.Tick
	m, err := e.Bus().Last(ctx, bus.Tick)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		note(false, "clock", "no tick yet: nothing can be rated; run `gpuhour serve`")
	case err != nil:
		return nil, 0, err
	default:
		if tick, err = codec.DecodeTick(m); err != nil {
			return nil, 0, err
		}
		note(true, "clock", "last tick %s, stored %s ago", tick.At, time.Since(m.Time).Round(time.Second))
	}
	for _, service := range []string{rater.Service, alerter.Service} {
		p, err := e.Store().Progress(ctx, service)
		if errors.Is(err, store.ErrNotFound) {
			note(false, service, "it never worked on this log")
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		lag := int64(tick.At - p.At)
		note(lag <= lagLimitSeconds, service, "complete until %s, %d s behind the clock", p.At, lag)
	}
	refusals, err := e.Store().OpenRefusals(ctx, ^uint64(0))
	if err != nil {
		return nil, 0, err
	}
	note(len(refusals) == 0, "refusals", "%d open; `gpuhour refusals` lists them", len(refusals))
	return findings, bad, nil
}

// lagLimitSeconds is how far a service may be behind the clock before a person should look.
const lagLimitSeconds = 5 * span.SecondsPerMinute

func refusalsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "refusals", Short: "List facts and messages that could not be taken, with the reason", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := look(c)
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				list, err := e.Store().OpenRefusals(c.Context(), ^uint64(0))
				if err != nil {
					return err
				}
				fmt.Fprint(c.OutOrStdout(), render.Refusals(list, o))
				return nil
			})
		},
	}
	config.Flags(c.Flags())
	c.Flags().String("lang", "en", "language: en or zh")
	return c
}
