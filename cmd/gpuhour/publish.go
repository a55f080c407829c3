package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/config"
)

// maxLine bounds one fact's JSON line: a contract's document and room for the rest.
const maxLine = 2 * fact.MaxDocument

func publishCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "publish [FILE...]",
		Short: "State facts: leases and contracts as JSON lines, from files or standard input",
		Long: `Each line is a fact: {"type":"lease.started.v1","key":"...","data":{...}}. docs/format.md lists the
types. All lines are checked before any is published. A line with a key that was published before
counts once, so a file may be sent again.`,
		Args: takes(0, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			facts, err := readFacts(args, c.InOrStdin())
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				if err := e.State(c.Context(), facts...); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "%d facts published\n", len(facts))
				return nil
			})
		},
	}
	config.Flags(c.Flags())
	return c
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
		return nil, errors.New("read facts: there is no fact in the input; a fact is one line of JSON, see docs/format.md")
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
			err = errors.Join(err, fmt.Errorf("%s:%d: %w", name, n, lineErr))
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
