package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/cmd/gpuhour/internal/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play five months of a real GPU cluster through every component and print its invoices",
		Long: `The demo imports the openb trace of 6,203 GPU leases, samples 68 GPUs every second for two of its
days, and runs everything through the collector's spool, NATS JetStream, the rater, ClickHouse and
the invoicer, all in this process. It needs no server. The ClickHouse engine is fetched once with
npm (178 MB) and kept in the user cache directory.

With --nats-url and --clickhouse-url it plays on a new log and an empty database of yours. With
--services-elsewhere too, the work is done by other processes, which you start at the same
addresses: gpuhour rater --clock=false, gpuhour invoicer and gpuhour alerter. The demo then only
samples, tells the time and waits for them. The invoices are the same to the last byte.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Look, err = look(c); err != nil {
				return err
			}
			if err := checkDemo(o); err != nil {
				return err
			}
			if o.Dir == "" {
				if o.Dir, err = os.MkdirTemp("", "gpuhour-demo-"); err != nil {
					return fmt.Errorf("make a data directory: %w; name one with --data", err)
				}
			}
			o.Logger, o.Out, o.Progress = quiet(), c.OutOrStdout(), newProgress()
			if err := demo.Run(c.Context(), o); err != nil {
				o.Progress.Done()
				return errors.Join(fmt.Errorf("demo in %s: %w", o.Dir, err), c.Context().Err())
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Dir, "data", "", "empty directory to work in; a new temporary one when not given")
	c.Flags().StringVar(&o.Minimum, "minimum", "", "minimum per start in the contracts, such as 60s")
	c.Flags().IntVar(&o.Hours, "hours", demo.MaxHours, fmt.Sprintf("hours of samples, %d to %d", demo.MinHours, demo.MaxHours))
	c.Flags().StringVar(&o.NATS, "nats-url", "", "NATS address with an empty log; empty: the server runs inside")
	c.Flags().StringVar(&o.ClickHouse, "clickhouse-url", "", "ClickHouse address; empty: the engine runs inside")
	c.Flags().BoolVar(&o.Elsewhere, "services-elsewhere", false, "rater, invoicer and alerter run as other processes at the two addresses")
	c.Flags().String("lang", "en", "language of the printed invoice: en or zh")
	return c
}

// checkDemo takes the addresses from flags alone: an environment made for services must not send a demo into their log.
func checkDemo(o demo.Options) error {
	if _, err := demo.Contracts(o.Minimum); err != nil {
		return fmt.Errorf("--minimum: %w", err)
	}
	if o.Hours < demo.MinHours || o.Hours > demo.MaxHours {
		return fmt.Errorf("--hours %d; write %d to %d", o.Hours, demo.MinHours, demo.MaxHours)
	}
	if (o.NATS == "") != (o.ClickHouse == "") {
		return errors.New("--nats-url and --clickhouse-url: give both or neither")
	}
	if o.Elsewhere && o.NATS == "" {
		return errors.New("--services-elsewhere needs --nats-url and --clickhouse-url, where the services are")
	}
	return nil
}
