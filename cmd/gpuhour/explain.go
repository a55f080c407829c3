package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain INVOICE LINE",
		Short: "Say why a line of an invoice is what it is: its time, its prices, its reasons",
		Long: `explain reads the log alone: it replays it up to the cut at which the invoice was decided and gives
every stretch of time that the line bills, with the steps of its price; or what another charge
stands on. LINE is the line's number; u1 is the first line of the time that is not billed.`,
		Example: "  gpuhour explain GH-000003 2\n  gpuhour explain GH-000003 u1 --lang zh",
		Args:    takes(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			line, err := explain.ParseLine(args[1])
			if err != nil {
				return err
			}
			if _, err := formatOf(c); err != nil {
				return err
			}
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				progress := newProgress()
				x, err := gpuhour.Explain(c.Context(), e.Bus(), cfg, args[0], line, func(at span.Second) { progress.Reached("replaying the log", at) })
				progress.Done()
				if err != nil {
					return err
				}
				return printExplanation(c, x)
			})
		},
	}
	config.Flags(c.Flags())
	c.Flags().Bool("all", false, "show every segment, price and reading, however many")
	c.Flags().String("lang", "en", "language: en or zh")
	c.Flags().String("format", "text", "text or json")
	return c
}

// printExplanation prints for a person or a program; a program gets everything.
func printExplanation(c *cobra.Command, x *explain.Explanation) error {
	if format, _ := formatOf(c); format == "json" {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetEscapeHTML(false)
		return e.Encode(x.Report())
	}
	o, err := look(c)
	if err != nil {
		return err
	}
	all, err := c.Flags().GetBool("all")
	if err != nil {
		return err
	}
	fmt.Fprint(c.OutOrStdout(), render.Explanation(x, o, all))
	return nil
}

// explainRated explains a line of what was just rated: 2, or CASE-000001/2 where there are several invoices.
func explainRated(c *cobra.Command, name string, log replay.Log, o replay.Options, r *replay.Result) error {
	invoice, which, named := strings.Cut(name, "/")
	if !named {
		which = name
	}
	line, err := explain.ParseLine(which)
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	if !named {
		if len(r.Invoices) == 0 {
			return fmt.Errorf("--explain %s: no invoice was issued; without --explain the reasons are shown", name)
		}
		if len(r.Invoices) > 1 {
			return fmt.Errorf("--explain %s: there are %s; name the invoice too, such as --explain %s/%s",
				name, count(len(r.Invoices), "invoice"), bill.InvoiceName(o.Series, 1), name)
		}
		invoice = r.Invoices[0].Document.Invoice
	}
	if !slices.ContainsFunc(r.Invoices, func(i replay.Issued) bool {
		return strings.EqualFold(i.Document.Invoice, invoice) || fmt.Sprint(i.Fact.Number) == invoice
	}) {
		return fmt.Errorf("--explain %s: there is no such invoice among the %s here", name, count(len(r.Invoices), "invoice"))
	}
	x, err := replay.Explain(log, o, invoice, line)
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	return printExplanation(c, x)
}

// explaining is what --explain names, or "".
func explaining(c *cobra.Command, files int) (string, error) {
	name, err := c.Flags().GetString("explain")
	if err == nil && name != "" && files > 1 {
		err = errors.New("--explain goes with one scenario file")
	}
	return name, err
}
