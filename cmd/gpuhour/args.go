package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
)

// takes checks how many arguments a command is given; the error shows the call.
func takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return fmt.Errorf("the number of arguments is %d; write `%s`", n, c.UseLine())
		}
		return nil
	}
}

// anyNumber is no upper bound of takes.
const anyNumber = math.MaxInt

// holdCommands makes a command that only holds others, and so no work of its own, show its help, and say which word is no
// command.
func holdCommands(c *cobra.Command) {
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return noCommand(c, args[0])
	}
	if c.SuggestionsMinimumDistance == 0 {
		c.SuggestionsMinimumDistance = 2
	}
}

// noCommand says which commands a word may have been meant as.
func noCommand(c *cobra.Command, word string) error {
	near := ""
	if names := c.SuggestionsFor(word); len(names) > 0 {
		near = "did you mean " + strings.Join(names, " or ") + "? "
	}
	return fmt.Errorf("there is no command `%s %s`; %s`%s --help` lists the commands", c.CommandPath(), word, near, c.CommandPath())
}

// count is "1 fact", "2 facts", "2 batches".
func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
