package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func invoiceCommand() *cobra.Command {
	c := &cobra.Command{Use: "invoice", Short: "List, show and preview invoices"}
	holdCommands(c)
	list := &cobra.Command{Use: "list", Short: "List what was issued", Args: takes(0, 0), RunE: listInvoices}
	show := &cobra.Command{
		Use: "show INVOICE", Short: "Show one invoice, such as GH-000003: text, or the frozen bytes with --format json",
		Args: takes(1, 1), RunE: showInvoice,
	}
	preview := &cobra.Command{
		Use: "preview CONTRACT", Short: "Show what a contract's period holds so far, open hours included",
		Args: takes(1, 1), RunE: previewInvoice,
	}
	preview.Flags().Duration("next", 0, "when a spend limit is looked at again, such as 5m: says what will be spent by then if all that runs goes on")
	preview.Flags().String("at", "", "an instant in the period, such as 2026-05-15T00:00:00+08:00; the current period when not given")
	for _, sub := range []*cobra.Command{list, show, preview} {
		settings(sub)
		sub.Flags().String("lang", "en", "language: en or zh")
		sub.Flags().String("format", "text", "text or json")
		c.AddCommand(sub)
	}
	return c
}

// formatOf is text or json.
func formatOf(c *cobra.Command) (string, error) {
	f, err := c.Flags().GetString("format")
	if err == nil && f != "text" && f != "json" {
		err = fmt.Errorf("--format %q; write text or json", f)
	}
	return f, err
}

// printDocument prints the document's own bytes, or its text.
func printDocument(c *cobra.Command, d *bill.Document) error {
	format, err := formatOf(c)
	if err != nil {
		return err
	}
	if format == "json" {
		data, err := d.Bytes()
		if err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), string(data))
		return nil
	}
	o, err := look(c)
	if err != nil {
		return err
	}
	fmt.Fprint(c.OutOrStdout(), render.Invoice(d, o))
	return nil
}

func listInvoices(c *cobra.Command, _ []string) error {
	format, err := formatOf(c)
	if err != nil {
		return err
	}
	o, err := look(c)
	if err != nil {
		return err
	}
	return attach(c, func(e *gpuhour.Engine) error {
		list, err := documents(c, e)
		if err != nil {
			return err
		}
		if format == "json" {
			return json.NewEncoder(c.OutOrStdout()).Encode(list)
		}
		fmt.Fprint(c.OutOrStdout(), render.List(list, o))
		return nil
	})
}

// documents reads every issued invoice, in order of number.
func documents(c *cobra.Command, e *gpuhour.Engine) ([]*bill.Document, error) {
	rows, err := e.Invoices(c.Context())
	if err != nil {
		return nil, err
	}
	out := make([]*bill.Document, len(rows))
	for i, r := range rows {
		if out[i], err = bill.ParseDocument(r.Document); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func showInvoice(c *cobra.Command, args []string) error {
	if _, err := formatOf(c); err != nil {
		return err
	}
	return attach(c, func(e *gpuhour.Engine) error {
		d, err := e.Invoice(c.Context(), args[0])
		if err != nil {
			return err
		}
		return printDocument(c, d)
	})
}

func previewInvoice(c *cobra.Command, args []string) error {
	if _, err := formatOf(c); err != nil {
		return err
	}
	var at span.Second
	if text, err := c.Flags().GetString("at"); err != nil || text != "" {
		if at, err = span.Parse(text); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	ahead, err := c.Flags().GetDuration("next")
	if err != nil {
		return err
	}
	if ahead < 0 {
		return fmt.Errorf("--next %v lies in the past; write 5m", ahead)
	}
	return attach(c, func(e *gpuhour.Engine) error {
		d, until, err := e.PreviewAhead(c.Context(), args[0], at, ahead)
		if err != nil {
			return err
		}
		if err := printDocument(c, d); err != nil {
			return err
		}
		o, err := look(c)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.ErrOrStderr(), render.Complete(until.String(), o))
		return tellIssued(c, e, d)
	})
}

// tellIssued names the invoices of a previewed period that is closed already: the preview is what is known of it now.
func tellIssued(c *cobra.Command, e *gpuhour.Engine, d *bill.Document) error {
	from, err := span.Parse(d.Period.From)
	if err != nil {
		return err
	}
	rows, err := e.Invoices(c.Context())
	if err != nil {
		return err
	}
	var names []string
	closed := false
	for _, r := range rows {
		if r.Contract != d.Contract || r.PeriodFrom != from {
			continue
		}
		issued, err := bill.ParseDocument(r.Document)
		if err != nil {
			return err
		}
		names = append(names, issued.Invoice)
		closed = closed || issued.Kind != bill.KindAdvance
	}
	if closed {
		fmt.Fprintf(c.ErrOrStderr(), "this period is closed and billed by %s; the preview shows what is known of it now\n", strings.Join(names, ", "))
	}
	return nil
}
