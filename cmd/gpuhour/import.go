package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

func importCommand() *cobra.Command {
	c := &cobra.Command{Use: "import", Short: "Turn traces of other systems into facts"}
	c.AddCommand(importOpenb(), importSpot())
	holdCommands(c)
	return c
}

func importOpenb() *cobra.Command {
	var nodes, pods, start, out string
	c := &cobra.Command{
		Use:   "openb",
		Short: "Turn the openb GPU cluster trace into lease facts as JSON lines",
		Long: `Every GPU pod that was scheduled becomes a lease from its scheduled to its deletion time, placed
first-fit over the nodes in file order. Without --nodes and --pods the trace that comes with the
program is read.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			trace, err := readOpenb(nodes, pods)
			if err != nil {
				return err
			}
			from, err := span.Parse(start)
			if err != nil {
				return fmt.Errorf("--start: %w", err)
			}
			imported, err := trace.Import(from)
			if err != nil {
				return err
			}
			if err := writeFacts(out, c.OutOrStdout(), imported.Facts); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d leases (%d unplaced); %d pods use no GPU and %d were never scheduled: they bill nothing\n",
				imported.Leases, imported.Unplaced, imported.NoGPU, imported.NeverScheduled)
			return nil
		},
	}
	c.Flags().StringVar(&nodes, "nodes", "", "node list (CSV)")
	c.Flags().StringVar(&pods, "pods", "", "pod list (CSV)")
	c.Flags().StringVar(&start, "start", "2026-01-01T00:00:00+08:00", "instant of the trace's second 0")
	c.Flags().StringVar(&out, "out", "-", "file to write, - for standard output")
	return c
}

func readOpenb(nodes, pods string) (*openb.Trace, error) {
	if nodes == "" && pods == "" {
		return openb.Embedded()
	}
	if nodes == "" || pods == "" {
		return nil, errors.New("--nodes and --pods go together; give both or neither")
	}
	n, err := os.Open(nodes)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer n.Close()
	p, err := os.Open(pods)
	if err != nil {
		return nil, fmt.Errorf("read pods: %w", err)
	}
	defer p.Close()
	return openb.Read(openb.File{Name: nodes, Reader: n}, openb.File{Name: pods, Reader: p})
}

func writeFacts(path string, standard io.Writer, facts []fact.Fact) (err error) {
	w := standard
	if path != "-" {
		f, createErr := os.Create(path)
		if createErr != nil {
			return fmt.Errorf("write facts: %w", createErr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	lines := bufio.NewWriter(w)
	for _, f := range facts {
		line, err := fact.EncodeLine(f)
		if err != nil {
			return err
		}
		if _, err := lines.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write facts: %w", err)
		}
	}
	return lines.Flush()
}
