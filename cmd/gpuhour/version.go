package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of the program and of the data it bills by", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			commit := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						commit = s.Value
					}
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "gpuhour    %s\ncommit     %s\ngo         %s %s/%s\ntz rules   %s\nClickHouse %s (inside)\n",
				gpuhour.Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, calendar.TZVersion, embedded.Version)
			return nil
		},
	}
}
