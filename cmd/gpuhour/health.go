package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/platform/config"
)

// healthTimeout is shorter than a container's own patience, so that the reason is told and not only a timeout.
const healthTimeout = 3 * time.Second

func healthCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "Ask the service on this machine whether it serves, by its --http-listen", Args: takes(0, 0),
		Long: `Health asks /readyz of the service that listens at --http-listen and ends with exit code 0 when it
serves. It is for a container's health check; doctor looks at the log and the tables.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.Flags())
			if err != nil {
				return err
			}
			if cfg.HTTP.Listen == "" {
				return errors.New("health: no address; give --http-listen as the service has it")
			}
			return askReady(c, cfg.HTTP.Listen)
		},
	}
	config.Flags(c.Flags())
	return c
}

func askReady(c *cobra.Command, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // a service that listens everywhere listens here
	}
	client := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{}} // no proxy: it is this machine
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s: %s", listen, strings.TrimSpace(string(text)))
	}
	fmt.Fprint(c.OutOrStdout(), string(text))
	return nil
}
