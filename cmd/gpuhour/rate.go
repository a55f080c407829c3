package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func rateCommand() *cobra.Command {
	var contracts []string
	var until string
	c := &cobra.Command{
		Use:   "rate FILE...",
		Short: "Price scenario files, or facts under contracts, in memory, without a server",
		Long: `Scenario files (.yaml) hold contracts, events and what is expected; rate prints the invoices and
tells what differs. Facts (.jsonl) are priced under the contracts named with --contract, up to the
close of the last period that the facts reach.`,
		Example: "  gpuhour rate core/cases/b05-last-partial-day.yaml\n  gpuhour rate facts.jsonl --contract acme.yaml",
		Args:    takes(1, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := formatOf(c); err != nil {
				return err
			}
			if _, err := look(c); err != nil {
				return err
			}
			scenarios, facts := sortFiles(args)
			switch {
			case len(scenarios) > 0 && len(facts) > 0:
				return errors.New("scenario files (.yaml) and facts (.jsonl) cannot be rated together; a contract is named with --contract")
			case len(scenarios) > 0 && len(contracts) > 0:
				return errors.New("--contract goes with facts (.jsonl); a scenario file holds its contracts")
			case len(scenarios) > 0 && until != "":
				return errors.New("--until goes with facts (.jsonl); a scenario file ends with the periods that it closes")
			case len(scenarios) > 0:
				return rateScenarios(c, scenarios)
			default:
				return rateFacts(c, facts, contracts, until)
			}
		},
	}
	c.Flags().StringSliceVar(&contracts, "contract", nil, "contract file (.yaml); may be given several times")
	c.Flags().StringVar(&until, "until", "", "last instant, such as 2026-06-01T03:00:00+08:00; later periods stay open")
	c.Flags().String("format", "text", "text or json (the invoices' frozen bytes, one a line)")
	c.Flags().String("lang", "en", "language: en or zh")
	c.Flags().String("explain", "", "explain a line instead: its number, u1 for unbilled time, CASE-000001/2 among several invoices")
	c.Flags().Bool("all", false, "with --explain: show every segment, price and reading, however many")
	return c
}

func sortFiles(args []string) (scenarios, facts []string) {
	for _, a := range args {
		switch strings.ToLower(filepath.Ext(a)) {
		case ".yaml", ".yml":
			scenarios = append(scenarios, a)
		default:
			facts = append(facts, a)
		}
	}
	return scenarios, facts
}

func rateScenarios(c *cobra.Command, files []string) error {
	var failed []string
	expected := 0
	format, _ := formatOf(c)
	explained, err := explaining(c, len(files))
	if err != nil {
		return err
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read scenario: %w", err)
		}
		s, err := scenario.Parse(name, data)
		if err != nil {
			if _, contractErr := contract.Parse(name, data); contractErr == nil {
				return fmt.Errorf("%s is a contract, not a scenario; rate facts under it: gpuhour rate facts.jsonl --contract %s", name, name)
			}
			return err
		}
		result, err := s.Run()
		if err != nil {
			return fmt.Errorf("rate %s: %w", name, err)
		}
		if explained != "" {
			return explainRated(c, explained, s.Log(), replay.Options{Series: scenario.Series, Grace: s.GraceSeconds}, result)
		}
		if format == "text" {
			fmt.Fprintf(c.OutOrStdout(), "%s: %s\n\n", name, strings.TrimSpace(s.Story))
		}
		if err := printResult(c, result); err != nil {
			return err
		}
		differences := s.Check(result)
		for _, d := range differences {
			fmt.Fprintln(c.ErrOrStderr(), d)
		}
		expected += len(s.Expect)
		if len(differences) > 0 {
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %s not as expected: %s", len(failed), count(len(files), "scenario"), strings.Join(failed, ", "))
	}
	if format == "text" && expected > 0 {
		fmt.Fprintf(c.OutOrStdout(), "as expected: %s, %s\n", count(len(files), "scenario"), count(expected, "period"))
	}
	return nil
}

// rateFacts takes what happens in 2200 or later, such as the end at 9999-12-31 by which other systems say "open", as known with the last
// of the other facts: waiting for it would rate every hour until then.
func rateFacts(c *cobra.Command, files, contracts []string, until string) error {
	facts, err := readFacts(files, c.InOrStdin())
	if err != nil {
		return err
	}
	log, err := contractStatements(contracts)
	if err != nil {
		return err
	}
	for _, f := range facts {
		if at := instantOf(f.Body); at < contract.Beyond {
			log.Until = max(log.Until, at)
		}
	}
	for _, f := range facts {
		log.Statements = append(log.Statements, replay.Statement{Known: min(instantOf(f.Body), log.Until), Fact: f})
	}
	slices.SortStableFunc(log.Statements, func(a, b replay.Statement) int { return int(min(max(a.Known-b.Known, -1), 1)) })
	defaults := config.Default().Invoice
	options := replay.Options{Series: defaults.Series, Grace: int64(defaults.Grace / time.Second)}
	var openEnd error
	if until != "" {
		if log.Until, err = span.Parse(until); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
	} else if due, err := replay.LastDue(log, options); err == nil {
		log.Until = due
	} else {
		openEnd = err // told after what could not be taken, which may be the reason
	}
	result, err := replay.Run(log, options)
	if err != nil {
		return err
	}
	if explained, err := explaining(c, 1); err != nil || explained != "" {
		return errors.Join(err, explainRated(c, explained, log, options, result))
	}
	if err := printResult(c, result); err != nil {
		return err
	}
	if n := len(result.Blocked); n > 0 {
		return fmt.Errorf("billing periods that could not close and are not billed: %d; what to do about each stands above", n)
	}
	return openEnd
}

// instantOf is when a statement becomes known here: at the instant it speaks of. What speaks of none is known from the start.
func instantOf(b fact.Body) span.Second {
	switch b := b.(type) {
	case *fact.SpotPriceChanged:
		return b.At
	case *fact.MeterRecorded:
		return b.At
	case *fact.PackagePurchased:
		return b.At
	case *fact.PackageEnded:
		return b.At
	case *fact.ContractTerminated:
		return b.At
	default:
		return occupancy.At(b)
	}
}

// contractStatements reads contract files as signatures known from the start. Every bad file is told.
func contractStatements(files []string) (replay.Log, error) {
	var log replay.Log
	var bad []error
	of := map[string]string{} // the file of each contract
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return log, fmt.Errorf("read contract: %w", err)
		}
		if isBook(data) {
			bad = append(bad, fmt.Errorf("%s is a price book, not a contract; state it as a price_book.published fact, see docs/facts.md", name))
			continue
		}
		if err := notScenario(name, data); err != nil {
			bad = append(bad, err)
			continue
		}
		parsed, err := contract.Parse(name, data)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if first := of[parsed.ID]; first != "" {
			bad = append(bad, fmt.Errorf("%s: contract %s stands in %s too; name one of the files", name, parsed.ID, first))
			continue
		}
		of[parsed.ID] = name
		body := &fact.ContractSigned{Contract: parsed.ID, Customer: parsed.Customer, Document: string(data)}
		log.Statements = append(log.Statements, replay.Statement{Fact: fact.Fact{Key: "contract/" + parsed.ID, Hash: fact.HashJSON(body), Body: body}})
	}
	return log, errors.Join(bad...)
}

// printResult prints what a replay gave: one invoice whole, of several a list, then what was refused or blocked.
func printResult(c *cobra.Command, r *replay.Result) error {
	documents := make([]*bill.Document, len(r.Invoices))
	for i, issued := range r.Invoices {
		documents[i] = issued.Document
	}
	if format, _ := formatOf(c); format == "json" {
		for _, issued := range r.Invoices {
			fmt.Fprintln(c.OutOrStdout(), string(issued.Fact.Document))
		}
		return json.NewEncoder(c.ErrOrStderr()).Encode(map[string]any{
			"blocked": append([]bill.Block{}, r.Blocked...), "refusals": append([]meter.Refusal{}, r.Refusals...),
		})
	}
	o, err := look(c)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if len(documents) <= maxWhole {
		for _, d := range documents {
			fmt.Fprintln(out, render.Invoice(d, o))
		}
	}
	if len(documents) != 1 {
		fmt.Fprintln(out, render.List(documents, o))
	}
	if len(r.Blocked) > 0 {
		fmt.Fprintln(out, render.Blocked(r.Blocked, o))
	}
	if len(r.Refusals) > 0 {
		fmt.Fprintln(out, render.Refusals(r.Refusals, o))
	}
	if text := render.Uncontracted(r.Totals, o); text != "" {
		fmt.Fprintln(out, text)
	}
	return nil
}

// maxWhole is how many invoices are printed whole before only a list is.
const maxWhole = 4
