package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/gpuhour/gpuhour/platform/config"
)

// setting is one key of the struct, found by reflection so that a new key cannot be forgotten.
type setting struct {
	key     string
	index   []int
	initial any
}

func settings() (all []setting) {
	var walk func(t reflect.Type, prefix string, index []int)
	walk = func(t reflect.Type, prefix string, index []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			at := append(append([]int(nil), index...), i)
			key := prefix + f.Tag.Get("koanf")
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, key+".", at)
				continue
			}
			all = append(all, setting{key, at, reflect.ValueOf(config.Default()).FieldByIndex(at).Interface()})
		}
	}
	walk(reflect.TypeFor[config.Config](), "", nil)
	return all
}

func (s setting) of(c config.Config) any { return reflect.ValueOf(c).FieldByIndex(s.index).Interface() }
func (s setting) flag() string           { return strings.ReplaceAll(s.key, ".", "-") }
func (s setting) variable() string {
	return config.EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.key))
}

// values are three good values other than the default, for the file, the environment and the flag.
func (s setting) values(t *testing.T) (file, environment, flag string) {
	t.Helper()
	switch s.key {
	case "log.level":
		return "debug", "warn", "error"
	case "log.format":
		return "json", "text", "json"
	case "http.listen":
		return `"127.0.0.1:1"`, "127.0.0.1:2", "127.0.0.1:3"
	}
	switch s.initial.(type) {
	case string:
		return "in-file", "in-environment", "in-flag"
	case int:
		return "2", "3", "4"
	case time.Duration:
		return "1h", "2h", "0"
	}
	t.Fatalf("%s: no values for a %T; add them", s.key, s.initial)
	return "", "", ""
}

func load(t *testing.T, args ...string) (config.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Flags(fs)
	fs.String("lang", "en", "a flag of the command, no setting")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(fs)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpuhour.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nested writes nats.url as a section with one setting.
func nested(key, value string) string {
	if section, name, ok := strings.Cut(key, "."); ok {
		return fmt.Sprintf("%s:\n  %s: %s\n", section, name, value)
	}
	return fmt.Sprintf("%s: %s\n", key, value)
}

func TestNothingSetIsTheDefault(t *testing.T) {
	c, err := load(t, "--lang", "zh")
	if diff := cmp.Diff(config.Default(), c); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestLaterSourceWins sets every key in the file, then also in the environment, then also as a flag.
func TestLaterSourceWins(t *testing.T) {
	for _, s := range settings() {
		t.Run(s.key, func(t *testing.T) {
			inFile, inEnvironment, inFlag := s.values(t)
			args := []string{"--config", write(t, nested(s.key, inFile))}
			check := func(source, want string) {
				t.Helper()
				c, err := load(t, args...)
				if err != nil {
					t.Fatalf("%s: %v", source, err)
				}
				got := s.of(c)
				if d, ok := got.(time.Duration); ok {
					wanted, err := time.ParseDuration(want)
					if err != nil || d != wanted {
						t.Errorf("%s: %v, want %s", source, d, want)
					}
				} else if fmt.Sprint(got) != strings.Trim(want, `"`) {
					t.Errorf("%s: %v, want %s", source, got, want)
				}
				for _, other := range settings() {
					if other.key != s.key && other.of(c) != other.initial {
						t.Errorf("%s also sets %s to %v", source, other.key, other.of(c))
					}
				}
			}
			check("file", inFile)
			t.Setenv(s.variable(), inEnvironment)
			check("environment", inEnvironment)
			args = append(args, "--"+s.flag(), inFlag)
			check("flag", inFlag)
			args = args[2:]
			check("flag without file", inFlag)
		})
	}
}

// TestFlagGivenWithItsDefaultWins: what a person wrote counts, whatever it equals.
func TestFlagGivenWithItsDefaultWins(t *testing.T) {
	t.Setenv("GPUHOUR_INVOICE_SERIES", "ENV")
	c, err := load(t, "--invoice-series", "GH", "--invoice-grace", "0")
	if err != nil || c.Invoice.Series != "GH" || c.Invoice.Grace != 0 {
		t.Errorf("%+v, %v; want series GH and grace 0", c.Invoice, err)
	}
}

func TestConfigFileOfTheEnvironment(t *testing.T) {
	t.Setenv("GPUHOUR_CONFIG", write(t, "nats.url: nats://a:4222\ninvoice: {grace: 0s}\nclickhouse:\nhttp: {}\n"))
	t.Setenv("GPUHOUR_LIBCHDB", "/opt/libchdb.so")
	c, err := load(t)
	if err != nil || c.NATS.URL != "nats://a:4222" || c.Invoice.Grace != 0 || c.ClickHouse.Database != "gpuhour" {
		t.Errorf("%+v, %v; want the file's address and grace, and the defaults of an empty section", c, err)
	}
	c, err = load(t, "--config", write(t, "data: by-flag\n"))
	if err != nil || c.Data != "by-flag" || c.NATS.URL != "" {
		t.Errorf("%+v, %v; want only the file of the flag", c, err)
	}
}

// TestEverySettingIsInTheDocument: key, flag, variable and default stand in one row of the table.
func TestEverySettingIsInTheDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 7 {
			rows[strings.TrimSpace(cells[1])] = strings.Join(cells[2:5], "|")
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Flags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	})
	for _, s := range settings() {
		initial := "empty"
		switch v := s.initial.(type) {
		case time.Duration:
			initial = "`" + strings.TrimSuffix(strings.TrimSuffix(v.String(), "0s"), "0m") + "`"
		default:
			if v != "" {
				initial = fmt.Sprintf("`%v`", v)
			}
		}
		want := fmt.Sprintf(" `--%s` | `%s` | %s ", s.flag(), s.variable(), initial)
		if got := rows["`"+s.key+"`"]; got != want {
			t.Errorf("docs/configuration.md has for %s\n%s\nwant\n%s", s.key, got, want)
		}
		if flags.Lookup(s.flag()) == nil {
			t.Errorf("%s has no flag", s.key)
		}
	}
	if n := len(settings()) + 3; len(rows) != n { // with the table's head, its rule and the row of --config
		t.Errorf("the table has %d rows, want %d", len(rows), n)
	}
}

func TestBadSettings(t *testing.T) {
	const known = "known are clickhouse.database, clickhouse.url, data, http.listen"
	for name, c := range map[string]struct {
		file, variable, value string
		args                  []string
		want                  []string
	}{
		"unknown in file":       {file: "nats: {urll: x}", want: []string{`gpuhour.yaml: nats.urll: unknown setting "nats.urll"`, known}},
		"unknown variable":      {variable: "GPUHOUR_TYPO", value: "1", want: []string{`environment: GPUHOUR_TYPO: unknown setting "typo"`, known}},
		"two at once":           {file: "a: 1\nb: 2", want: []string{`"a"`, `"b"`}},
		"value for a section":   {file: "nats: 5", want: []string{"nats is a section; write its settings: nats.creds, nats.listen, nats.nkey, nats.replicas, nats.tls-ca, nats.tls-cert, nats.tls-key, nats.url"}},
		"section for a value":   {file: "data: {a: b}", want: []string{`unknown setting "data.a"`}},
		"list for a value":      {file: "data: [a]", want: []string{"data: one plain value is expected"}},
		"nothing for a value":   {file: "data:", want: []string{"data: one plain value is expected"}},
		"number for text":       {file: "invoice: {series: 0123}", want: []string{"invoice.series: YAML reads the value as 83, not as text; write it in quotes"}},
		"text for a number":     {file: "nats: {replicas: three}", want: []string{`nats.replicas: "three" is no int; write it like the default, 0`}},
		"fraction for a number": {file: "nats: {replicas: 1.7}", want: []string{`"1.7" is no int`}},
		"bool for a number":     {file: "nats: {replicas: true}", want: []string{`"true" is no int`}},
		"number in variable":    {variable: "GPUHOUR_NATS_REPLICAS", value: "x", want: []string{`environment: GPUHOUR_NATS_REPLICAS: "x" is no int`}},
		"length without unit":   {file: "invoice: {grace: 3}", want: []string{`invoice.grace: "3" is no duration; write it like the default, 3h0m0s`}},
		"negative grace":        {args: []string{"--invoice-grace", "-1s"}, want: []string{"invoice.grace: -1s; write whole seconds"}},
		"half seconds of grace": {args: []string{"--invoice-grace", "1500ms"}, want: []string{"invoice.grace: 1.5s"}},
		"no directory":          {args: []string{"--data", ""}, want: []string{"data: the directory is missing"}},
		"replicas":              {args: []string{"--nats-replicas", "6"}, want: []string{"nats.replicas: 6; write 1 to 5"}},
		"level":                 {args: []string{"--log-level", "loud"}, want: []string{`log.level: "loud"; write debug, info, warn or error`}},
		"format":                {args: []string{"--log-format", "xml"}, want: []string{`log.format: "xml"; write text or json`}},
		"series":                {args: []string{"--invoice-series", "G H"}, want: []string{`invoice.series: "G H"; write a short name`}},
		"no series":             {args: []string{"--invoice-series", ""}, want: []string{`invoice.series: ""`}},
		"database":              {args: []string{"--clickhouse-database", ""}, want: []string{"clickhouse.database: the name is missing"}},
		"listen":                {args: []string{"--http-listen", "9400"}, want: []string{`http.listen: "9400"; write an address and a port`}},
		"address of the web":    {args: []string{"--nats-url", "nats://a:4222,http://b:4222"}, want: []string{`nats.url: "http://..."; write nats://host:4222`}},
		"broken file":           {file: "data: [", want: []string{"read settings from ", "gpuhour.yaml"}},
		"twice":                 {file: "data: a\ndata: b", want: []string{`already defined`}},
		"missing file":          {args: []string{"--config", "no-such-file.yaml"}, want: []string{"read settings from no-such-file.yaml", "no such file"}},
		"two bad values":        {args: []string{"--log-level", "x", "--log-format", "y"}, want: []string{"log.level", "log.format"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file != "" {
				c.args = append(c.args, "--config", write(t, c.file+"\n"))
			}
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			got, err := load(t, c.args...)
			if err == nil {
				t.Fatalf("no error; settings %+v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\ndoes not say\n%s", err, want)
				}
			}
		})
	}
}

func TestPath(t *testing.T) {
	if got := (config.Config{Data: "d"}).Path("a", "b"); got != filepath.Join("d", "a", "b") {
		t.Errorf("Path = %s", got)
	}
}
