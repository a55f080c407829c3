package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/config"
)

// serviceCommands are serve, which runs everything, and one command per service for when one machine is too small.
func serviceCommands() []*cobra.Command {
	return []*cobra.Command{
		serviceCommand("serve", "Run everything in one process: clock, rater, invoicer, alerter", gpuhour.AllServices()...),
		serviceCommand("rater", "Run the clock and the rater against NATS and ClickHouse by address", gpuhour.ServiceClock, gpuhour.ServiceRater),
		serviceCommand("invoicer", "Run only the invoicer against NATS and ClickHouse by address", gpuhour.ServiceInvoicer),
		serviceCommand("alerter", "Run only the alerter against NATS and ClickHouse by address", gpuhour.ServiceAlerter),
	}
}

func serviceCommand(name, short string, services ...string) *cobra.Command {
	clock := true
	c := &cobra.Command{
		Use: name, Short: short, Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			if name != "serve" && (cfg.NATS.URL == "" || cfg.ClickHouse.URL == "") {
				return fmt.Errorf("%s needs --nats-url and --clickhouse-url; on one machine run `gpuhour serve`, which holds both engines", name)
			}
			if !clock {
				services = slices.DeleteFunc(slices.Clone(services), func(s string) bool { return s == gpuhour.ServiceClock })
			}
			return withEngine(c, openPatiently, func(e *gpuhour.Engine) error { return e.Serve(c.Context(), services...) })
		},
	}
	config.Flags(c.Flags())
	if name == gpuhour.ServiceRater {
		c.Flags().BoolVar(&clock, "clock", true, "publish the time; false where another process does, such as gpuhour demo")
	}
	return c
}

// openPatiently is gpuhour.Open for a service: it may be started before the engines that it needs.
func openPatiently(ctx context.Context, cfg gpuhour.Config, o gpuhour.Options) (*gpuhour.Engine, error) {
	o.Wait = true
	return gpuhour.Open(ctx, cfg, o)
}

func resumeCommand() *cobra.Command {
	var by string
	c := &cobra.Command{
		Use: "resume", Short: "State that the clock may go on after a stop of over an hour", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if by == "" {
				return errors.New("--by: say who checked the machine's time")
			}
			return attach(c, func(e *gpuhour.Engine) error {
				now := span.Second(time.Now().Unix())
				f := fact.Fact{Key: "clock.resumed/" + now.String(), Body: &fact.TimeResumed{At: now, By: by}}
				if err := e.State(c.Context(), f); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "time goes on from %s\n", now)
				return nil
			})
		},
	}
	settings(c)
	c.Flags().StringVar(&by, "by", os.Getenv("USER"), "who checked the machine's time")
	return c
}
