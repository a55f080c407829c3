package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func recoverCommand() *cobra.Command {
	var by, reason string
	var yes bool
	c := &cobra.Command{
		Use: "recover", Short: "State that a log goes on that was restored from an older copy", Args: takes(0, 0),
		Long: `recover compares the log with the tables, which know what the log held before, and says what was
lost. With --yes it states the invoices that were given out and lost: their numbers stay used, and
each is cancelled by a numbered document. Then it states that the log goes on: its next incarnation,
with tables of its own. Nothing is deleted. Without --yes it changes nothing. Stop every gpuhour
service first. A newer copy of the log, where there is one, is always better.`,
		Example: "  gpuhour recover\n  gpuhour recover --by ops-2 --reason \"disk of node 3 lost\" --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			if yes && (by == "" || reason == "") {
				return errors.New("--by and --reason: say who recovers the log, and what happened to it; both stay in the log")
			}
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			if err := dataThere(cfg); err != nil {
				return err
			}
			return withEngine(c, openAlone, func(e *gpuhour.Engine) error {
				r, err := e.Recovery(c.Context())
				if err == nil && yes && r.Incarnation > 0 {
					_, err = e.Recover(c.Context(), by, reason)
				}
				if err != nil {
					return err
				}
				return tellRecovery(c.OutOrStdout(), r, yes)
			})
		},
	}
	settings(c)
	c.Flags().StringVar(&by, "by", os.Getenv("USER"), "who recovers the log")
	c.Flags().StringVar(&reason, "reason", "", "what happened to the log")
	c.Flags().BoolVar(&yes, "yes", false, "do it; without it nothing is changed")
	return c
}

// openAlone opens a log that no service of this machine works on.
func openAlone(ctx context.Context, cfg gpuhour.Config, o gpuhour.Options) (*gpuhour.Engine, error) {
	e, err := gpuhour.Open(ctx, cfg, o)
	if err != nil {
		err = fmt.Errorf("open the log while no service runs: %w", err)
	}
	return e, err
}

// tellRecovery says what was found, what follows and what is left to a person.
func tellRecovery(w io.Writer, r gpuhour.Recovery, done bool) error {
	if r.Incarnation == 0 {
		_, err := fmt.Fprintln(w, "the tables agree with the log; nothing is to be recovered")
		return err
	}
	at := func(t span.Second) string {
		if t == 0 {
			return "before its first tick"
		}
		return t.String()
	}
	fmt.Fprintf(w, "the tables had come to block %d, fact %d, %s\nthe log ends at block %d, fact %d, %s\n",
		r.Block, r.FactsSeq, at(r.At), r.LogBlock, r.LogFactsSeq, at(r.LogAt))
	if r.Block > r.LogBlock || r.FactsSeq > r.LogFactsSeq {
		fmt.Fprintf(w, "lost are %s and %s at least\n", count(behind(r.Block, r.LogBlock), "usage message"), count(behind(r.FactsSeq, r.LogFactsSeq), "fact"))
	} else {
		fmt.Fprintln(w, "the log went on since it was restored: other messages stand where some were lost")
	}
	stated, would := "stated again", "are"
	if !done {
		would = "would be"
	}
	if n := len(r.Invoices); n == 0 {
		fmt.Fprintln(w, "no invoice was lost with it")
	} else {
		fmt.Fprintf(w, "\n%s given out and lost; they %s %s, keep their numbers and are cancelled one by one:\n\n%s\n",
			count(n, "invoice"), would, stated, render.List(r.Invoices, render.Options{Width: 100}))
	}
	fmt.Fprintf(w, `the periods close anew from the log, so state again what it lost before you serve:
- facts: publish them again; a key that is there counts once
- samples: collectors send again by themselves what their spools still hold
- time: if the log's last tick is over an hour old, run `+"`gpuhour resume --by NAME`"+`
`)
	if !done {
		_, err := fmt.Fprintf(w, "nothing was changed; `gpuhour recover --by NAME --reason TEXT --yes` begins incarnation %d\n", r.Incarnation)
		return err
	}
	_, err := fmt.Fprintf(w, "incarnation %d of the log has begun; its tables are made when gpuhour starts, and the old ones stay\n", r.Incarnation)
	return err
}

// behind is how many positions b is behind a.
func behind(a, b uint64) int { return int(max(a, b) - b) }
