package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/services/importer/spot"
)

func importSpot() *cobra.Command {
	var prices, availability, out string
	c := &cobra.Command{
		Use:   "spot",
		Short: "Turn a spot market's price histories and availability log into facts as JSON lines",
		Long: `Price histories are the .json files of a folder, in the form of EC2's; each price that changes
becomes a tick of the index of its instance type. The log says which instances were found running:
each becomes a spot lease of one instance, whose SKU is the instance type. Every entry and line that
becomes no fact is named on standard error. gpuhour rate prices the facts under a contract.`,
		Example: "  gpuhour import spot --prices examples/spot/prices \\\n    --availability examples/spot/availability.out --out facts.jsonl",
		Args:    takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if prices == "" || availability == "" {
				return errors.New("--prices and --availability are needed: a folder of price histories and a log of polls")
			}
			imported, err := readSpot(prices, availability)
			if err != nil {
				return err
			}
			if err := writeFacts(out, c.OutOrStdout(), imported.Facts); err != nil {
				return err
			}
			for _, left := range imported.Left {
				fmt.Fprintln(c.ErrOrStderr(), left)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s of %d price entries; %s (%d reclaimed) of %d log lines; %d entries and lines became no fact\n",
				count(imported.Ticks, "tick"), imported.Entries, count(imported.Leases, "lease"), imported.Reclaimed, imported.Lines, len(imported.Left))
			return nil
		},
	}
	c.Flags().StringVar(&prices, "prices", "", "folder of price histories (.json)")
	c.Flags().StringVar(&availability, "availability", "", "availability log")
	c.Flags().StringVar(&out, "out", "-", "file to write, - for standard output")
	return c
}

func readSpot(prices, availability string) (*spot.Import, error) {
	names, err := filepath.Glob(filepath.Join(prices, "*.json")) // in order of name
	if err != nil {
		return nil, fmt.Errorf("--prices: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--prices %s: there is no .json file in it", prices)
	}
	var histories []spot.File
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read prices: %w", err)
		}
		defer f.Close()
		histories = append(histories, spot.File{Name: name, Reader: f})
	}
	log, err := os.Open(availability)
	if err != nil {
		return nil, fmt.Errorf("read availability: %w", err)
	}
	defer log.Close()
	return spot.Read(histories, spot.File{Name: availability, Reader: log})
}
