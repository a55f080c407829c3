package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
	"github.com/gpuhour/gpuhour/services/rater"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Check the log, the tables and how far the services are", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return attach(c, func(e *gpuhour.Engine) error {
				d := &diagnosis{e: e}
				if err := d.examine(c.Context()); err != nil {
					return err
				}
				for _, f := range d.findings {
					fmt.Fprintln(c.OutOrStdout(), f)
				}
				if len(d.blocked) > 0 {
					fmt.Fprint(c.OutOrStdout(), "\n", render.Blocked(d.blocked[:min(len(d.blocked), shownBlocks)], render.Options{Width: 100}))
				}
				if d.bad > 0 {
					return fmt.Errorf("doctor: %s, marked BAD, for a person to look at", count(d.bad, "finding"))
				}
				return nil
			})
		},
	}
	settings(c)
	return c
}

// shownBlocks is how many blocked periods are shown.
const shownBlocks = 20

// diagnosis is what was found.
type diagnosis struct {
	e        *gpuhour.Engine
	findings []string
	bad      int // of them need a person
	blocked  []bill.Block
}

func (d *diagnosis) note(ok bool, what, format string, args ...any) {
	mark := "ok  "
	if !ok {
		mark = "BAD "
		d.bad++
	}
	d.findings = append(d.findings, fmt.Sprintf("%s  %-12s %s", mark, what, fmt.Sprintf(format, args...)))
}

// examine looks at both streams, the clock, every service's lag in time, what was refused and what cannot be billed.
func (d *diagnosis) examine(ctx context.Context) error {
	for _, stream := range []string{bus.Facts, bus.Usage} {
		last, err := d.e.Bus().LastSeq(ctx, stream)
		if err != nil {
			return err
		}
		d.note(true, "log", "%s ends at %d", stream, last)
	}
	clock, err := d.clock(ctx)
	if err != nil {
		return err
	}
	for _, service := range []string{rater.Service, alerter.Service} {
		p, err := d.e.Store().Progress(ctx, service)
		if errors.Is(err, store.ErrNotFound) {
			d.note(false, service, "it never worked on this log")
			continue
		}
		if err != nil {
			return err
		}
		lag := int64(clock - p.At)
		d.note(lag <= lagLimitSeconds, service, "complete until %s, %d s behind the clock", p.At, lag)
	}
	standing, err := d.e.InvoiceStanding(ctx)
	if errors.Is(err, journal.ErrRewound) {
		d.note(false, "log", "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	d.blocked = standing.Blocked
	waiting := standing.Due - len(d.blocked)
	d.note(len(d.blocked) == 0, "invoicer", "%s issued; %s being closed, %d cannot close", count(int(standing.Issued), "invoice"), count(waiting, "period"), len(d.blocked))
	refusals, err := openRefusals(ctx, d.e.Store())
	if errors.Is(err, errNotJudged) {
		d.note(false, "refusals", "not known")
		return nil
	}
	if err != nil {
		return err
	}
	hint := ""
	if len(refusals) > 0 {
		hint = "; `gpuhour refusals` lists them"
	}
	d.note(len(refusals) == 0, "refusals", "%d open%s", len(refusals), hint)
	return nil
}

// clock is the last tick's time. A wall clock that stands is a finding: nothing is rated or billed until it goes on.
func (d *diagnosis) clock(ctx context.Context) (span.Second, error) {
	m, err := d.e.Bus().Last(ctx, bus.Tick)
	if errors.Is(err, bus.ErrNotFound) {
		d.note(false, "clock", "no tick yet: nothing can be rated; run `gpuhour serve`")
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	tick, err := codec.DecodeTick(m)
	if err != nil {
		return 0, err
	}
	declared, err := d.e.Bus().Last(ctx, codec.FactSubject(&fact.ClockDeclared{}))
	if err != nil {
		return 0, err
	}
	f, err := codec.DecodeFact(declared)
	if err != nil {
		return 0, err
	}
	age := time.Since(m.Time)
	mode, _ := f.Body.(*fact.ClockDeclared) // the only body on this subject
	stands := mode.Mode == fact.Wall && age > lagLimitSeconds*time.Second
	hint := ""
	if stands {
		hint = ": nothing is billed while it stands; run `gpuhour serve`"
	}
	d.note(!stands, "clock", "last tick %s, stored %s ago%s", tick.At, age.Round(time.Second), hint)
	return tick.At, nil
}

// lagLimitSeconds is how far a service may be behind the clock before a person should look.
const lagLimitSeconds = 5 * span.SecondsPerMinute

func refusalsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "refusals", Short: "List facts and messages that could not be taken, with the reason", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := look(c)
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				list, err := openRefusals(c.Context(), e.Store())
				if err != nil {
					return err
				}
				fmt.Fprint(c.OutOrStdout(), render.Refusals(list, o))
				return nil
			})
		},
	}
	settings(c)
	c.Flags().String("lang", "en", "language: en or zh")
	return c
}

var errNotJudged = errors.New("no rater has worked on this log yet, so nobody has judged what it holds; run `gpuhour serve`, and `gpuhour doctor` to see how far it is")

// openRefusals lists them, unless nobody has judged yet what the log holds: that nothing is refused is then not known.
func openRefusals(ctx context.Context, tables store.Store) ([]meter.Refusal, error) {
	_, err := tables.Progress(ctx, rater.Service)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNotJudged
	}
	if err != nil {
		return nil, err
	}
	return tables.OpenRefusals(ctx, ^uint64(0))
}
