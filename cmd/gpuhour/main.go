package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuhour:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "gpuhour",
		Short:         "Meter, price, bill and prove GPU rental",
		Long:          "gpuhour meters GPU leases to the second, prices them by contract, issues itemised invoices and proves them from one log.\nStart with `gpuhour demo`.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       gpuhour.Version,
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	c.AddGroup(&cobra.Group{ID: "try", Title: "Try it:"}, &cobra.Group{ID: "run", Title: "Run it:"}, &cobra.Group{ID: "use", Title: "Use it:"})
	c.SetHelpCommandGroupID("use")
	for _, sub := range []*cobra.Command{demoCommand(), rateCommand(), importCommand()} {
		sub.GroupID = "try"
		c.AddCommand(sub)
	}
	run := append(serviceCommands(), collectorCommand(), resumeCommand())
	for _, sub := range run {
		sub.GroupID = "run"
		c.AddCommand(sub)
	}
	for _, sub := range []*cobra.Command{publishCommand(), invoiceCommand(), refusalsCommand(), doctorCommand(), versionCommand()} {
		sub.GroupID = "use"
		c.AddCommand(sub)
	}
	return c
}
