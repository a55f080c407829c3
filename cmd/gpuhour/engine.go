package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/cmd/gpuhour/internal/demo"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// opener is gpuhour.Open or gpuhour.Attach.
type opener func(context.Context, gpuhour.Config, gpuhour.Options) (*gpuhour.Engine, error)

// withEngine loads the settings, opens an engine, runs f on it and closes it.
func withEngine(c *cobra.Command, open opener, f func(*gpuhour.Engine) error) (err error) {
	cfg, err := config.Load(c.Flags())
	if err != nil {
		return err
	}
	log, err := obs.Logger(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	progress := newProgress()
	engine, err := open(c.Context(), cfg, gpuhour.Options{Logger: log, Progress: progress.Bytes})
	progress.Done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	return f(engine)
}

// attach is withEngine for a command that looks on: it must not make a data directory.
func attach(c *cobra.Command, f func(*gpuhour.Engine) error) error {
	cfg, err := config.Load(c.Flags())
	if err != nil {
		return err
	}
	if err := dataThere(cfg); err != nil {
		return err
	}
	return withEngine(c, gpuhour.Attach, f)
}

// dataThere is an error when the log would be made by looking at it.
func dataThere(cfg gpuhour.Config) error {
	if cfg.NATS.URL == "" {
		if _, err := os.Stat(cfg.Data); err != nil {
			return fmt.Errorf("no gpuhour runs and the data directory %q is not there; name it with --data", cfg.Data)
		}
	}
	return nil
}

// settings adds the flags of a command that looks on. What only a service needs may be given and is not listed.
func settings(c *cobra.Command) {
	config.Flags(c.Flags())
	for _, name := range []string{"http-listen", "invoice-grace", "invoice-series", "nats-listen", "nats-replicas"} {
		c.Flags().Lookup(name).Hidden = true
	}
}

func newProgress() *demo.Progress {
	return demo.NewProgress(os.Stderr, term.IsTerminal(int(os.Stderr.Fd())))
}

// quiet drops what libraries log: a demo's output is its own.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// look is how things are laid out for this terminal.
func look(c *cobra.Command) (render.Options, error) {
	language, err := c.Flags().GetString("lang")
	if err != nil {
		language = string(render.English)
	}
	o := render.Options{Width: 100}
	switch render.Language(language) {
	case render.English, render.Chinese:
		o.Language = render.Language(language)
	default:
		return o, fmt.Errorf("--lang %q; write en or zh", language)
	}
	if fd := int(os.Stdout.Fd()); c.OutOrStdout() == os.Stdout && term.IsTerminal(fd) {
		o.Colour = os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(fd); err == nil {
			o.Width = min(max(w, 80), 120)
		}
	}
	return o, nil
}
