package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/quote"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func quoteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "quote [FILE...]",
		Short: "Price past use under other contracts, side by side, and rank the ways to buy it",
		Long: `quote rates a customer's use of a span of whole billing periods again, as if its leases had
been under each contract named with --contract, beside what its own contracts bill. Then it ranks
the ways to buy the same use under the first of them, or under its own: on demand, reserved at the
best quantity, spot, off-peak.

With files it needs no server: facts (.jsonl), contracts in force (.yaml), or one scenario (.yaml).
Without files it reads the log alone, as explain does.`,
		Example: "  gpuhour quote --customer acme --from 2026-05-01 --to 2026-06-01 --contract other.yaml\n" +
			"  gpuhour quote facts.jsonl acme.yaml --customer acme --from 2026-05-01 --to 2026-06-01",
		Args: takes(0, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := formatOf(c); err != nil {
				return err
			}
			if _, err := look(c); err != nil {
				return err
			}
			r, err := quoteRequest(c)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return quoteFiles(c, r, args)
			}
			return attach(c, func(e *gpuhour.Engine) error {
				progress := newProgress()
				result, err := gpuhour.Quote(c.Context(), e.Bus(), r, func(at span.Second) { progress.Reached("reading the log", at) }, progress.Rated)
				progress.Done()
				if err != nil {
					return err
				}
				return printQuote(c, result)
			})
		},
	}
	settings(c)
	c.Flags().String("customer", "", "whose use is priced")
	c.Flags().String("from", "", "first day of the span, such as 2026-05-01, or an instant; days are those of the first contract's zone")
	c.Flags().String("to", "", "first day after the span, or an instant")
	c.Flags().StringSlice("contract", nil, "contract file (.yaml) to price by; may be given several times")
	c.Flags().String("lang", "en", "language: en or zh")
	c.Flags().String("format", "text", "text or json")
	return c
}

// quoteRequest reads the flags. Every bad one is told.
func quoteRequest(c *cobra.Command) (quote.Request, error) {
	var r quote.Request
	var errs []error
	var err error
	if r.Customer, err = c.Flags().GetString("customer"); err != nil || r.Customer == "" {
		errs = append(errs, errors.Join(err, errors.New("--customer is missing; name whose use is priced")))
	}
	for flag, into := range map[string]*quote.Bound{"from": &r.From, "to": &r.To} {
		text, err := c.Flags().GetString(flag)
		switch {
		case err != nil:
			errs = append(errs, err)
		case text == "":
			errs = append(errs, fmt.Errorf("--%s is missing; write a date such as 2026-05-01", flag))
		default:
			if *into, err = quote.ParseBound(text); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	files, err := c.Flags().GetStringSlice("contract")
	if err != nil {
		return r, err
	}
	log, err := contractStatements(files)
	if err != nil {
		errs = append(errs, err)
	}
	for i, s := range log.Statements {
		if signed, ok := s.Fact.Body.(*fact.ContractSigned); ok && err == nil {
			parsed, err := contract.Parse(files[i], []byte(signed.Document))
			errs = append(errs, err)
			r.Contracts = append(r.Contracts, parsed)
		}
	}
	return r, errors.Join(errs...)
}

// quoteFiles quotes what files know.
func quoteFiles(c *cobra.Command, r quote.Request, files []string) error {
	block, err := knownByFiles(c, files)
	if err != nil {
		return err
	}
	q := quote.New(r)
	q.Facts(block)
	if err := q.Resolve(); err != nil {
		return err
	}
	q.Samples(block)
	progress := newProgress()
	result, err := q.Result(progress.Rated)
	progress.Done()
	if err != nil {
		return err
	}
	return printQuote(c, result)
}

// knownByFiles is what files state and measure, as one block of a log: a scenario, or facts with the contracts in force. Leases that
// facts leave open run on.
func knownByFiles(c *cobra.Command, files []string) (meter.Block, error) {
	documents, lines := sortFiles(files)
	if len(documents) == 1 && len(lines) == 0 {
		return knownByScenario(documents[0])
	}
	log, err := contractStatements(documents)
	if err != nil {
		return meter.Block{}, err
	}
	facts, err := readFacts(lines, c.InOrStdin())
	for _, f := range facts {
		log.Statements = append(log.Statements, replay.Statement{Fact: f})
	}
	log.Until = span.Open
	return blockOf(log), err
}

func knownByScenario(name string) (meter.Block, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return meter.Block{}, fmt.Errorf("read scenario: %w", err)
	}
	s, err := scenario.Parse(name, data)
	if err != nil {
		if _, contractErr := contract.Parse(name, data); contractErr == nil {
			return meter.Block{}, fmt.Errorf("%s is a contract: a quote also needs what was used; name facts (.jsonl) beside it", name)
		}
		return meter.Block{}, err
	}
	return blockOf(s.Log()), nil
}

// blockOf puts all that a log knows at its end in one block: a quote does not ask when something became known.
func blockOf(log replay.Log) meter.Block {
	b := meter.Block{At: log.Until}
	for i, s := range log.Statements {
		s.Fact.Seq = uint64(i + 1)
		b.Facts = append(b.Facts, s.Fact)
	}
	for i, m := range log.Measurements {
		b.Usage = append(b.Usage, meter.UsageMessage{Seq: uint64(i + 1), Batch: m.Batch})
	}
	return b
}

// printQuote prints for a person or a program.
func printQuote(c *cobra.Command, r *quote.Result) error {
	if format, _ := formatOf(c); format == "json" {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetEscapeHTML(false)
		return e.Encode(r.Report())
	}
	o, err := look(c)
	if err != nil {
		return err
	}
	fmt.Fprint(c.OutOrStdout(), render.Quote(r, o))
	return nil
}
