package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
)

// maxLine bounds one fact's JSON line: a contract's document and room for the rest.
const maxLine = 2 * fact.MaxDocument

func publishCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "publish [FILE...]",
		Short: "State facts: contracts (.yaml) and leases as JSON lines, from files or standard input",
		Long: `A .yaml file is a contract, stated as signed; what changes later is an amendment, a fact.
In any other file each line is a fact:
{"type":"lease.started.v1","key":"...","data":{...}}; docs/facts.md shows every type. Everything is
checked before anything is published. A fact with a key that was published before counts once, so a
file may be sent again. What gpuhour itself decides, such as closings and invoices, is not taken.`,
		Example: "  gpuhour publish acme.yaml facts.jsonl\n  gpuhour publish < facts.jsonl",
		Args:    takes(0, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			facts, err := readStatements(args, c.InOrStdin())
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				if err := e.State(c.Context(), facts...); err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), count(len(facts), "fact"), "published; `gpuhour refusals` lists what could not be taken")
				return nil
			})
		},
	}
	settings(c)
	return c
}

// readStatements reads contracts and JSON lines. What would be refused later, and known only then, is an error here.
func readStatements(files []string, in io.Reader) ([]fact.Fact, error) {
	contracts, lines := sortFiles(files)
	log, err := contractStatements(contracts)
	var facts []fact.Fact
	for _, s := range log.Statements {
		facts = append(facts, s.Fact)
	}
	if len(lines) > 0 || len(contracts) == 0 {
		stated, linesErr := readFacts(lines, in)
		facts, err = append(facts, stated...), errors.Join(err, linesErr)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range facts {
		err = errors.Join(err, statable(f))
	}
	return facts, err
}

// statable is whether a person may state a fact: a closing that nobody decided would be believed, and a contract, a price, a way to
// price or a quantity that cannot be read would wait as a refusal.
func statable(f fact.Fact) error {
	var id, customer, document string
	switch b := f.Body.(type) {
	case *fact.LeaseStarted:
		if b.PricingMode != price.OnDemand && b.PricingMode != price.Spot {
			return fmt.Errorf("fact %s: pricing_mode is %q; write %s or %s", f.Key, b.PricingMode, price.OnDemand, price.Spot)
		}
		return nil
	case *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped, *fact.RefusalWaived, *fact.RefusalCarried:
		return nil
	case *fact.PriceBookPublished:
		book, err := contract.ParseBook("fact "+f.Key+": document", []byte(b.Document))
		if err == nil && book.Name != b.Book {
			err = fmt.Errorf("fact %s names price book %q, its document %q; correct one of them", f.Key, b.Book, book.Name)
		}
		return err
	case *fact.MeterRecorded:
		quantity, err := money.ParseDecimal(b.Quantity)
		if err == nil && quantity.Sign() < 0 {
			err = fmt.Errorf("%q is negative; write 0 or more", b.Quantity)
		}
		if err != nil {
			return fmt.Errorf("fact %s: quantity %w", f.Key, err)
		}
		return nil
	case *fact.PackagePurchased, *fact.PackageEnded, *fact.ContractTerminated, *fact.DeviceDeclared,
		*fact.NodeEnrolled, *fact.NodeRevoked:
		return nil
	case *fact.SpotPriceChanged:
		if _, _, err := contract.SpotPrice(b); err != nil {
			return fmt.Errorf("fact %s: %w", f.Key, err)
		}
		return nil
	case *fact.TimeResumed:
		return fmt.Errorf("fact %s: %s is stated by `gpuhour resume`", f.Key, f.Body.Type())
	case *fact.LogRecovered, *fact.InvoiceRecovered:
		return fmt.Errorf("fact %s: %s is stated by `gpuhour recover`", f.Key, f.Body.Type())
	case *fact.ContractSigned:
		id, customer, document = b.Contract, b.Customer, b.Document
	case *fact.ContractAmended:
		id, document = b.Contract, b.Document
	default:
		return fmt.Errorf("fact %s: %s is decided by gpuhour itself and cannot be published", f.Key, f.Body.Type())
	}
	c, err := contract.Parse("fact "+f.Key+": document", []byte(document))
	if err != nil {
		return err
	}
	if c.ID != id || customer != "" && c.Customer != customer {
		return fmt.Errorf("fact %s names contract %q of customer %q, its document %q of %q; correct one of them", f.Key, id, customer, c.ID, c.Customer)
	}
	return nil
}

// readFacts reads JSON lines of every file, "-" or no file being standard input. Every bad line is told, by file and line.
func readFacts(files []string, in io.Reader) ([]fact.Fact, error) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var facts []fact.Fact
	var bad []error
	for _, name := range files {
		r := in
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, fmt.Errorf("read facts: %w", err)
			}
			defer f.Close()
			r = f
		}
		got, err := readLines(name, r)
		facts = append(facts, got...)
		bad = append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	if len(facts) == 0 {
		return nil, errors.New("read facts: there is no fact in the input; a fact is one line of JSON, see docs/facts.md")
	}
	return facts, nil
}

// shownErrors is how many bad lines of a file are told.
const shownErrors = 20

func readLines(name string, r io.Reader) (facts []fact.Fact, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	n, bad := 0, 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		f, lineErr := fact.DecodeLine(lines.Bytes())
		if lineErr == nil {
			facts = append(facts, f)
			continue
		}
		if bad++; bad <= shownErrors {
			err = errors.Join(err, told(fmt.Sprintf("%s:%d: ", name, n), lineErr))
		}
	}
	if bad > shownErrors {
		err = errors.Join(err, fmt.Errorf("%s: %d more bad lines", name, bad-shownErrors))
	}
	if scanErr := lines.Err(); scanErr != nil {
		if errors.Is(scanErr, bufio.ErrTooLong) {
			scanErr = fmt.Errorf("the line has more than %d bytes; a fact is one line", maxLine)
		}
		err = errors.Join(err, fmt.Errorf("%s:%d: %w", name, n+1, scanErr))
	}
	return facts, err
}

// told puts where it is in front of every line of an error.
func told(where string, err error) error {
	return errors.New(where + strings.ReplaceAll(err.Error(), "\n", "\n"+where))
}
