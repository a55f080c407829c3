package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuhour/gpuhour"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, root(), os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes: what a script may tell apart.
const (
	exitError       = 1
	exitFault       = 3   // gpuhour is wrong, not its input
	exitInterrupted = 130 // 128 and the signal's number, as shells have it
)

// exit is an error that leaves with a code of its own. Without err everything was told already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprintf("exit %d: %v", e.code, e.err) }

// execute runs a command and tells what went wrong, a fault of the program too: its stack goes into a file, not to a person.
func execute(ctx context.Context, c *cobra.Command, errOut io.Writer) (code int) {
	defer func() {
		if fault := recover(); fault != nil {
			code = exitFault
			fmt.Fprintf(errOut, "gpuhour: %v\nThis is a fault of gpuhour, not of your input. Please report it with this command:\n  %s\n", fault, strings.Join(os.Args, " "))
			if name, err := keepStack(debug.Stack()); err == nil {
				fmt.Fprintf(errOut, "and with the file %s, which says where it happened.\n", name)
			}
		}
	}()
	err := c.ExecuteContext(ctx)
	var how *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &how):
		if how.err != nil {
			fmt.Fprintln(errOut, "gpuhour:", how.err)
		}
		return how.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "gpuhour: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintln(errOut, "gpuhour:", err)
		return exitError
	}
}

func keepStack(stack []byte) (name string, err error) {
	f, err := os.CreateTemp("", "gpuhour-fault-*.txt")
	if err != nil {
		return "", err
	}
	_, err = f.Write(stack)
	return f.Name(), errors.Join(err, f.Close())
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "gpuhour",
		Short: "Meter, price, bill and prove GPU rental",
		Long: `gpuhour meters GPU leases to the second, prices them by contract, issues itemised invoices and
proves them from one log. Start with ` + "`gpuhour demo`.",
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
	run := append(serviceCommands(), ingestCommand(), collectorCommand(), nodeCommand(), healthCommand(), resumeCommand(), recoverCommand())
	for _, sub := range run {
		sub.GroupID = "run"
		c.AddCommand(sub)
	}
	for _, sub := range []*cobra.Command{contractCommand(), publishCommand(), invoiceCommand(), explainCommand(), quoteCommand(), refusalsCommand(), auditCommand(), verifyBlockCommand(), doctorCommand(), versionCommand()} {
		sub.GroupID = "use"
		c.AddCommand(sub)
	}
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 100"))
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; `%s --help` lists the flags", flagError(err), c.CommandPath())
	})
	holdCommands(c)
	return c
}

// flagError says what a flag's value looks like, where pflag names the function of Go's that did not take it.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	form, ok := map[string]string{
		"int": "a whole number", "int64": "a whole number", "duration": "a time like 500ms, 30s or 10m", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q; write %s", invalid.GetFlag().Name, invalid.GetValue(), form)
}
