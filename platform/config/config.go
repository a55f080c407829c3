package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the environment variables: GPUHOUR_NATS_URL is nats.url.
const EnvPrefix = "GPUHOUR_"

// Config is everything that can be set. With no address, both engines run inside the process.
type Config struct {
	Data       string     `koanf:"data"`
	NATS       NATS       `koanf:"nats"`
	ClickHouse ClickHouse `koanf:"clickhouse"`
	Invoice    Invoice    `koanf:"invoice"`
	HTTP       HTTP       `koanf:"http"`
	Log        Log        `koanf:"log"`
}

// NATS is where the log is.
type NATS struct {
	URL      string `koanf:"url"`
	Listen   string `koanf:"listen"`
	Replicas int    `koanf:"replicas"`
}

// ClickHouse is where the tables are.
type ClickHouse struct {
	URL      string `koanf:"url"`
	Database string `koanf:"database"`
}

// Invoice is how invoices are numbered and how long a close waits.
type Invoice struct {
	Series string        `koanf:"series"`
	Grace  time.Duration `koanf:"grace"`
}

// HTTP is the operator's port: metrics, health, readiness.
type HTTP struct {
	Listen string `koanf:"listen"`
}

// Log is the process's own log.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Default is what holds when nothing is set.
func Default() Config {
	return Config{
		Data: "gpuhour-data", NATS: NATS{Listen: "127.0.0.1:0", Replicas: 1}, ClickHouse: ClickHouse{Database: "gpuhour"},
		Invoice: Invoice{Series: "GH", Grace: 3 * time.Hour}, Log: Log{Level: "info", Format: "text"},
	}
}

// Flags adds one flag per key: --nats-url is nats.url.
func Flags(fs *pflag.FlagSet) {
	d := Default()
	fs.String("config", "", "YAML file with these settings; see docs/configuration.md")
	fs.String("data", d.Data, "directory of the log, the tables and the spool")
	fs.String("nats-url", d.NATS.URL, "NATS address; empty: the server runs inside")
	fs.String("nats-listen", d.NATS.Listen, "loopback address on which the inner server listens for other commands")
	fs.Int("nats-replicas", d.NATS.Replicas, "copies of each stream; 3 on a cluster")
	fs.String("clickhouse-url", d.ClickHouse.URL, "ClickHouse address (clickhouse:// or http://); empty: the engine runs inside")
	fs.String("clickhouse-database", d.ClickHouse.Database, "database of the tables")
	fs.String("invoice-series", d.Invoice.Series, "series of invoice numbers")
	fs.Duration("invoice-grace", d.Invoice.Grace, "wait after a period for contracts that state no grace; 0 is 0")
	fs.String("http-listen", d.HTTP.Listen, "address for /metrics, /healthz and /readyz; empty: none")
	fs.String("log-level", d.Log.Level, "debug, info, warn or error")
	fs.String("log-format", d.Log.Format, "text or json")
}

// Load reads defaults, then the file, then the environment, then the flags that were given, and checks the result.
func Load(fs *pflag.FlagSet) (Config, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(Default(), "koanf"), nil); err != nil {
		return Config{}, fmt.Errorf("read default settings: %w", err)
	}
	known := k.Keys()
	path, _ := fs.GetString("config")
	if path == "" {
		path = os.Getenv(EnvPrefix + "CONFIG")
	}
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("read settings from %s: %w", path, err)
		}
	}
	if err := k.Load(env.Provider(".", env.Opt{Prefix: EnvPrefix, TransformFunc: environment}), nil); err != nil {
		return Config{}, fmt.Errorf("read settings from the environment: %w", err)
	}
	flags := posflag.ProviderWithFlag(fs, ".", k, func(f *pflag.Flag) (string, any) {
		if !f.Changed || !isKey(known, keyOf(f.Name)) {
			return "", nil
		}
		return keyOf(f.Name), posflag.FlagVal(fs, f)
	})
	if err := k.Load(flags, nil); err != nil {
		return Config{}, fmt.Errorf("read settings from flags: %w", err)
	}
	for _, key := range k.Keys() {
		if !isKey(known, key) {
			return Config{}, fmt.Errorf("unknown setting %q; known are %s", key, strings.Join(known, ", "))
		}
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, fmt.Errorf("read settings: %w", err)
	}
	return c, c.check()
}

// environment turns GPUHOUR_NATS_URL into nats.url. Variables that other parts read (the engine's library path, the
// path of the settings file) are no settings.
func environment(key, value string) (string, any) {
	name := strings.ToLower(strings.TrimPrefix(key, EnvPrefix))
	if name == "config" || name == "libchdb" {
		return "", nil
	}
	return keyOf(strings.ReplaceAll(name, "_", "-")), value
}

// keyOf splits a flag's name at its first dash, which ends the section.
func keyOf(name string) string { return strings.Replace(name, "-", ".", 1) }

func isKey(known []string, key string) bool {
	for _, k := range known {
		if k == key {
			return true
		}
	}
	return false
}

func (c Config) check() error {
	var err error
	if c.Data == "" {
		err = errors.Join(err, errors.New("data: the directory is missing"))
	}
	if c.Invoice.Grace < 0 || c.Invoice.Grace%time.Second != 0 {
		err = errors.Join(err, fmt.Errorf("invoice.grace: %v; write whole seconds, 0 or more, like 3h", c.Invoice.Grace))
	}
	if c.Invoice.Series == "" {
		err = errors.Join(err, errors.New("invoice.series: it is missing; write GH"))
	}
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		err = errors.Join(err, fmt.Errorf("log.level: %q; write debug, info, warn or error", c.Log.Level))
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		err = errors.Join(err, fmt.Errorf("log.format: %q; write text or json", c.Log.Format))
	}
	if c.NATS.Replicas < 1 || c.NATS.Replicas > 5 {
		err = errors.Join(err, fmt.Errorf("nats.replicas: %d; write 1 to 5", c.NATS.Replicas))
	}
	return err
}

// Path is a path below the data directory.
func (c Config) Path(parts ...string) string {
	return filepath.Join(append([]string{c.Data}, parts...)...)
}
