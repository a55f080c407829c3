package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/config"
)

// shownDifferences is how many differences are printed.
const shownDifferences = 20

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Replay the whole log and compare every close and invoice, byte by byte",
		Long: `audit reads the log alone and trusts no table: every block is rated again, every close is
decided again, and what the log holds must be the same. It prints where the two part, and exits 1
when they do.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				progress := newProgress()
				report, err := gpuhour.Audit(c.Context(), e.Bus(), cfg, func(at span.Second) { progress.Reached("replaying the log", at) })
				progress.Done()
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "replayed %d blocks: %d facts and %d usage batches\ncompared %d cuts and %d invoices\n",
					report.Blocks, report.Facts, report.Batches, report.Cuts, report.Invoices)
				if report.Recovered > 0 {
					fmt.Fprintf(c.OutOrStdout(), "%s recovered, which the log had lost: taken as stated; %d cancelled\n", count(report.Recovered, "invoice"), report.Cancelled)
				}
				for i, d := range report.Differences {
					if i == shownDifferences {
						fmt.Fprintf(c.OutOrStdout(), "... and %d more\n", len(report.Differences)-i)
						break
					}
					fmt.Fprintln(c.OutOrStdout(), "DIFFERENT", d)
				}
				if n := len(report.Differences); n > 0 {
					return fmt.Errorf("the log and its replay differ %d times", n)
				}
				fmt.Fprintln(c.OutOrStdout(), "the same, to the last byte")
				return nil
			})
		},
	}
	config.Flags(c.Flags())
	return c
}
