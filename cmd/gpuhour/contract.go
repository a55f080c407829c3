package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func contractCommand() *cobra.Command {
	c := &cobra.Command{Use: "contract", Short: "Check, show and compare contract files"}
	holdCommands(c)
	check := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with contracts and price books, where, and what to write instead",
		Long: `Every error of every file is told. Of a good file one line says what it is. A document that begins
with book: is a price book. - reads standard input. docs/contract.md explains the language.`,
		Example: "  gpuhour contract check examples/contracts/*.yaml",
		Args:    takes(1, anyNumber), RunE: checkContracts,
	}
	show := &cobra.Command{
		Use:   "show FILE",
		Short: "Lay a contract out: prices, windows, commitments with their fees, defaults",
		Args:  takes(1, 1), RunE: showContract,
	}
	diff := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Tell what an amendment changes, clause by clause, and what it must not change",
		Long: `Compares what two contracts say, not how they are written: a default that is written out is no
difference. Exit codes are those of diff: 0 the same, 1 different, 2 a file cannot be read.`,
		Example: "  gpuhour contract diff acme-2026.yaml acme-2026-july.yaml",
		Args:    takes(2, 2), RunE: diffContracts,
	}
	for _, sub := range []*cobra.Command{show, diff} {
		sub.Flags().String("lang", "en", "language: en or zh")
	}
	c.AddCommand(check, show, diff)
	return c
}

// readDocument reads a file, or standard input for "-".
func readDocument(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(in, contract.MaxBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	return data, nil
}

// isBook tells a price book by its first key.
func isBook(document []byte) bool { return beginsWith(document, "book:") }

// notScenario is an error for a scenario file where a contract is expected: each of its keys would be one else.
func notScenario(name string, document []byte) error {
	if beginsWith(document, "story:") {
		return fmt.Errorf("%s is a scenario, not a contract; `gpuhour rate %s` prices it", name, name)
	}
	return nil
}

// beginsWith tells whether a key is the first of a document.
func beginsWith(document []byte, key string) bool {
	for line := range strings.Lines(strings.TrimPrefix(string(document), "\ufeff")) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return strings.HasPrefix(strings.TrimLeft(line, "{ "), key)
		}
	}
	return false
}

func readContract(name string, in io.Reader) (*contract.Contract, error) {
	data, err := readDocument(name, in)
	switch {
	case err != nil:
		return nil, err
	case isBook(data):
		return nil, fmt.Errorf("%s is a price book, not a contract; `gpuhour contract check %s` reads it", name, name)
	}
	if err := notScenario(name, data); err != nil {
		return nil, err
	}
	return contract.Parse(name, data)
}

func checkContracts(c *cobra.Command, args []string) error {
	bad := 0
	for _, name := range args {
		data, err := readDocument(name, c.InOrStdin())
		told := ""
		if err == nil {
			told, err = checked(name, data)
		}
		if err != nil {
			bad++
			fmt.Fprintln(c.ErrOrStderr(), err)
			continue
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", name, told)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %s cannot be used", bad, count(len(args), "file"))
	}
	return nil
}

// checked is what a good document is, in one line.
func checked(name string, document []byte) (string, error) {
	if isBook(document) {
		b, err := contract.ParseBook(name, document)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("price book %s in %s, %s", b.Name, b.Currency, count(len(b.Rates), "rate")), nil
	}
	if err := notScenario(name, document); err != nil {
		return "", err
	}
	k, err := contract.Parse(name, document)
	if err != nil {
		return "", err
	}
	parts := []string{
		fmt.Sprintf("contract %s of %s in %s", k.ID, k.Customer, k.Currency),
		fmt.Sprintf("%s to %s", k.BoundText(k.Term.From), k.BoundText(k.Term.To)), count(len(k.Rates), "rate"),
	}
	var clauses []string
	for _, p := range k.Provisions() {
		if p.Clause != "contract" && p.Clause != "billing" && p.Clause != "rates" && (len(clauses) == 0 || clauses[len(clauses)-1] != p.Clause) {
			clauses = append(clauses, p.Clause)
		}
	}
	if len(clauses) > 0 {
		parts = append(parts, strings.Join(clauses, ", "))
	}
	told := strings.Join(parts, "; ")
	for _, n := range notes(k) {
		told += fmt.Sprintf("\n%s: note: %s", name, n)
	}
	return told, nil
}

// notes are what a contract speaks of and gpuhour does not do by itself.
func notes(k *contract.Contract) []string {
	var out []string
	if k.Limit != nil && k.Limit.Action == contract.LimitStop {
		out = append(out, fmt.Sprintf("limits: gpuhour stops nothing. What runs costs on until the provider stops it: "+
			"`gpuhour invoice preview %s --next 5m` says how far that goes in five minutes, beside the %s accepted",
			k.ID, money.DecimalText(k.Limit.Overshoot, k.Currency.Digits(), money.MaxDigits)))
	}
	if len(k.Arrears) > 0 {
		out = append(out, "arrears: nothing starts these steps by itself. The provider states what it did with lease facts (state_changed, stopped by arrears), and that is billed")
	}
	return out
}

func showContract(c *cobra.Command, args []string) error {
	o, err := look(c)
	if err != nil {
		return err
	}
	k, err := readContract(args[0], c.InOrStdin())
	if err != nil {
		return err
	}
	fmt.Fprint(c.OutOrStdout(), render.Contract(k, o))
	return nil
}

// exitTrouble is the exit code of a comparison that could not be made, as diff has it.
const exitTrouble = 2

func diffContracts(c *cobra.Command, args []string) error {
	o, err := look(c)
	if err == nil && args[0] == "-" && args[1] == "-" {
		err = errors.New("standard input is one contract; name a file for the other")
	}
	if err != nil {
		return &exit{exitTrouble, err}
	}
	was, wasErr := readContract(args[0], c.InOrStdin())
	is, isErr := readContract(args[1], c.InOrStdin())
	if err := errors.Join(wasErr, isErr); err != nil {
		return &exit{exitTrouble, err}
	}
	changes := contract.Compare(was, is)
	fmt.Fprint(c.OutOrStdout(), render.ContractChanges(changes, contract.Unamendable(was, is), o))
	if len(changes) > 0 {
		return &exit{code: exitError}
	}
	return nil
}
