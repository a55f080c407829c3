package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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
	Creds    string `koanf:"creds"`
	NKey     string `koanf:"nkey"`
	TLSCA    string `koanf:"tls-ca"`
	TLSCert  string `koanf:"tls-cert"`
	TLSKey   string `koanf:"tls-key"`
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
		Data: "gpuhour-data", NATS: NATS{Listen: "127.0.0.1:0"}, ClickHouse: ClickHouse{Database: "gpuhour"},
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
	fs.Int("nats-replicas", d.NATS.Replicas, "copies of each stream, 3 on a cluster; 0: as many as it has, and 1 of a new one")
	fs.String("nats-creds", d.NATS.Creds, "credentials file of a JWT user")
	fs.String("nats-nkey", d.NATS.NKey, "file with the seed of an nkey user")
	fs.String("nats-tls-ca", d.NATS.TLSCA, "PEM file of the CAs that sign the server's certificate; empty: the machine's")
	fs.String("nats-tls-cert", d.NATS.TLSCert, "PEM file of the client certificate")
	fs.String("nats-tls-key", d.NATS.TLSKey, "PEM file of its private key")
	fs.String("clickhouse-url", d.ClickHouse.URL, "ClickHouse address (clickhouse:// or http://); empty: the engine runs inside")
	fs.String("clickhouse-database", d.ClickHouse.Database, "database of the tables")
	fs.String("invoice-series", d.Invoice.Series, "series of invoice numbers")
	fs.Duration("invoice-grace", d.Invoice.Grace, "wait after a period for contracts that state no grace; 0 is 0")
	fs.String("http-listen", d.HTTP.Listen, "address for /metrics, /healthz and /readyz; empty: none")
	fs.String("log-level", d.Log.Level, "debug, info, warn or error")
	fs.String("log-format", d.Log.Format, "text or json")
}

// Load reads defaults, then the file, then the environment, then the flags that were given, and checks the result. Its
// error tells everything that is wrong, each with its source.
func Load(fs *pflag.FlagSet) (Config, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(Default(), "koanf"), nil); err != nil {
		return Config{}, fmt.Errorf("read default settings: %w", err)
	}
	l := &loading{settings: k, known: k.Keys(), syntax: pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	Flags(l.syntax)
	if err := errors.Join(l.file(fs), l.environment(), l.flags(fs)); err != nil {
		return Config{}, err
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, fmt.Errorf("read settings: %w", err)
	}
	return c, c.check()
}

// loading takes one source after the other into the settings.
type loading struct {
	settings *koanf.Koanf
	known    []string
	syntax   *pflag.FlagSet // every source writes a value as its flag does
}

func (l *loading) file(fs *pflag.FlagSet) error {
	path, _ := fs.GetString("config")
	if path == "" {
		path = os.Getenv(EnvPrefix + "CONFIG")
	}
	if path == "" {
		return nil
	}
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		return fmt.Errorf("read settings from %s: %w", path, err)
	}
	var err error
	for _, key := range k.Keys() {
		err = errors.Join(err, l.set(path+": "+key, key, k.Get(key)))
	}
	return err
}

// environment takes GPUHOUR_NATS_URL as nats.url. Variables that other parts read (the engine's library path, the path
// of the settings file) are no settings.
func (l *loading) environment() error {
	k := koanf.New(".")
	names := map[string]string{}
	err := k.Load(env.Provider(".", env.Opt{Prefix: EnvPrefix, TransformFunc: func(name, value string) (string, any) {
		rest := strings.ToLower(strings.TrimPrefix(name, EnvPrefix))
		if rest == "config" || rest == "libchdb" {
			return "", nil
		}
		key := keyOf(strings.ReplaceAll(rest, "_", "-"))
		names[key] = name
		return key, value
	}}), nil)
	if err != nil {
		return fmt.Errorf("read settings from the environment: %w", err)
	}
	for _, key := range k.Keys() {
		err = errors.Join(err, l.set("environment: "+names[key], key, k.Get(key)))
	}
	return err
}

// flags takes those that were given; a command has others that are no settings.
func (l *loading) flags(fs *pflag.FlagSet) error {
	var err error
	fs.Visit(func(f *pflag.Flag) {
		if key := keyOf(f.Name); slices.Contains(l.known, key) {
			err = errors.Join(err, l.set("--"+f.Name, key, f.Value.String()))
		}
	})
	return err
}

// set takes one value; source says where it stands.
func (l *loading) set(source, key string, value any) error {
	if !slices.Contains(l.known, key) {
		if section := l.section(key); len(section) > 0 {
			if _, isMap := value.(map[string]any); isMap || value == nil {
				return nil // a section whose settings are all left out
			}
			return fmt.Errorf("%s is a section; write its settings: %s", source, strings.Join(section, ", "))
		}
		return fmt.Errorf("%s: unknown setting %q; known are %s", source, key, strings.Join(l.known, ", "))
	}
	f := l.syntax.Lookup(strings.ReplaceAll(key, ".", "-"))
	text := fmt.Sprint(value)
	switch value.(type) {
	case nil, map[string]any, []any:
		return fmt.Errorf("%s: one plain value is expected; the default is %q", source, f.DefValue)
	case string:
	default:
		if f.Value.Type() == "string" {
			return fmt.Errorf("%s: YAML reads the value as %s, not as text; write it in quotes", source, text)
		}
	}
	if err := f.Value.Set(text); err != nil {
		return fmt.Errorf("%s: %q is no %s; write it like the default, %s", source, text, f.Value.Type(), f.DefValue)
	}
	if err := l.settings.Set(key, posflag.FlagVal(l.syntax, f)); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// section lists the settings below a key.
func (l *loading) section(key string) (all []string) {
	for _, k := range l.known {
		if strings.HasPrefix(k, key+".") {
			all = append(all, k)
		}
	}
	return all
}

// keyOf splits a flag's name at its first dash, which ends the section.
func keyOf(name string) string { return strings.Replace(name, "-", ".", 1) }

// maxSeriesBytes keeps an invoice's name, such as GH-000003, short enough for every fact that names it.
const maxSeriesBytes = 64

func (c Config) check() error {
	var err error
	if c.Data == "" {
		err = errors.Join(err, errors.New("data: the directory is missing"))
	}
	if c.Invoice.Grace < 0 || c.Invoice.Grace%time.Second != 0 {
		err = errors.Join(err, fmt.Errorf("invoice.grace: %v; write whole seconds, 0 or more, like 3h", c.Invoice.Grace))
	}
	if s := c.Invoice.Series; s == "" || len(s) > maxSeriesBytes || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		err = errors.Join(err, fmt.Errorf("invoice.series: %q; write a short name without spaces, like GH", s))
	}
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		err = errors.Join(err, fmt.Errorf("log.level: %q; write debug, info, warn or error", c.Log.Level))
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		err = errors.Join(err, fmt.Errorf("log.format: %q; write text or json", c.Log.Format))
	}
	for address := range strings.SplitSeq(c.NATS.URL, ",") {
		if scheme, _, ok := strings.Cut(address, "://"); ok && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, strings.TrimSpace(scheme)) {
			err = errors.Join(err, fmt.Errorf("nats.url: %q; write nats://host:4222, or tls://host:4222", scheme+"://..."))
		}
	}
	if c.NATS.Replicas < 0 || c.NATS.Replicas > 5 {
		err = errors.Join(err, fmt.Errorf("nats.replicas: %d; write 1 to 5, or 0 to leave the streams as they are", c.NATS.Replicas))
	}
	if c.ClickHouse.Database == "" {
		err = errors.Join(err, errors.New("clickhouse.database: the name is missing; write gpuhour"))
	}
	if c.HTTP.Listen != "" {
		_, port, splitErr := net.SplitHostPort(c.HTTP.Listen)
		if _, portErr := net.LookupPort("tcp", port); splitErr != nil || portErr != nil {
			err = errors.Join(err, fmt.Errorf("http.listen: %q; write an address and a port, like 127.0.0.1:9400", c.HTTP.Listen))
		}
	}
	return err
}

// Path is a path below the data directory.
func (c Config) Path(parts ...string) string {
	return filepath.Join(append([]string{c.Data}, parts...)...)
}
