package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/cmd/gpuhour/internal/demo"
)

func demoCommand() *cobra.Command {
	var dir, minimum string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play five months of a real GPU cluster through every component and print its invoices",
		Long: `The demo imports the openb trace of 6,203 GPU leases, samples 68 GPUs every second for two of its
days, and runs everything through the collector's spool, NATS JetStream, the rater, ClickHouse and
the invoicer, all in this process. It needs no server. The ClickHouse engine is fetched once with
npm (178 MB) and kept in the user cache directory.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o, err := look(c)
			if err != nil {
				return err
			}
			if _, err := demo.Contracts(minimum); err != nil {
				return fmt.Errorf("--minimum: %w", err)
			}
			if dir == "" {
				if dir, err = os.MkdirTemp("", "gpuhour-demo-"); err != nil {
					return fmt.Errorf("make a data directory: %w; name one with --data", err)
				}
			}
			progress := newProgress()
			err = demo.Run(c.Context(), demo.Options{
				Dir: dir, Minimum: minimum, Logger: quiet(), Out: c.OutOrStdout(), Progress: progress, Look: o,
			})
			if err != nil {
				progress.Done()
				return errors.Join(fmt.Errorf("demo in %s: %w", dir, err), c.Context().Err())
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "data", "", "empty directory to work in; a new temporary one when not given")
	c.Flags().StringVar(&minimum, "minimum", "", "minimum per start in the contracts, such as 60s")
	c.Flags().String("lang", "en", "language of the printed invoice: en or zh")
	return c
}
