package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// composeFile is the part of the compose format that docker-compose.yml uses; any other word is an error.
type composeFile struct {
	Name     string                     `yaml:"name"`
	Services map[string]*composeService `yaml:"services"`
	Volumes  map[string]any             `yaml:"volumes"`
}

type composeService struct {
	Image       string                    `yaml:"image"`
	Build       *composeBuild             `yaml:"build"`
	Command     []string                  `yaml:"command"`
	Environment map[string]string         `yaml:"environment"`
	DependsOn   map[string]composeDepends `yaml:"depends_on"`
	Volumes     []string                  `yaml:"volumes"`
	Ports       []string                  `yaml:"ports"`
	Ulimits     map[string]int            `yaml:"ulimits"`
	Healthcheck *composeHealth            `yaml:"healthcheck"`
	ReadOnly    bool                      `yaml:"read_only"`
	Restart     string                    `yaml:"restart"`
}

type composeBuild struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile"`
}

type composeDepends struct {
	Condition string `yaml:"condition"`
}

type composeHealth struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	Retries     int      `yaml:"retries"`
	StartPeriod string   `yaml:"start_period"`
}

// repository is the folder that holds docker-compose.yml.
const repository = "../.."

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{repository}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	d := yaml.NewDecoder(strings.NewReader(readFile(t, "docker-compose.yml")), yaml.Strict())
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// secret is a variable of compose that must be set.
var secret = regexp.MustCompile(`\$\{([A-Z_]+):\?[^}]+\}`)

func TestComposeServices(t *testing.T) {
	c := readCompose(t)
	var names []string
	taken := map[string]string{}
	used := map[string]bool{}
	for name, s := range c.Services {
		names = append(names, name)
		if s.Image == "" || s.Restart != "unless-stopped" {
			t.Errorf("%s: image %q, restart %q", name, s.Image, s.Restart)
		}
		if h := s.Healthcheck; h == nil || len(h.Test) < 2 || h.Test[0] != "CMD" || h.Interval == "" || h.Timeout == "" || h.Retries == 0 {
			t.Errorf("%s: its health check is %+v", name, h)
		}
		for on, how := range s.DependsOn {
			if c.Services[on] == nil || how.Condition != "service_healthy" {
				t.Errorf("%s depends on %s, %s; want a service that is healthy", name, on, how.Condition)
			}
		}
		for _, p := range s.Ports {
			outside, _, _ := strings.Cut(strings.TrimPrefix(p, "127.0.0.1:"), ":")
			if !strings.HasPrefix(p, "127.0.0.1:") || taken[outside] != "" {
				t.Errorf("%s publishes %s; want loopback alone, and a port that %q does not have", name, p, taken[outside])
			}
			taken[outside] = name
		}
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			used[from] = true
			if !strings.HasPrefix(from, "./") {
				if _, ok := c.Volumes[from]; !ok {
					t.Errorf("%s: volume %s is not declared", name, from)
				}
				continue
			}
			if info, err := os.Stat(filepath.Join(repository, from)); err != nil || info.IsDir() || !strings.HasSuffix(to, ":ro") {
				t.Errorf("%s mounts %s: %v; want a file of the repository, read-only", name, v, err)
			}
		}
		for key, value := range s.Environment {
			if strings.Contains(key, "PASSWORD") && !secret.MatchString(value) {
				t.Errorf("%s: %s is written in the file", name, key)
			}
		}
	}
	for v := range c.Volumes {
		if !used[v] {
			t.Errorf("no service uses the volume %s", v)
		}
	}
	slices.Sort(names)
	if want := []string{"alerter", "clickhouse", "invoicer", "nats", "rater"}; !slices.Equal(names, want) {
		t.Errorf("the services are %v; want %v", names, want)
	}
}

// TestComposeRunsOurCommands: each of our services is a command, its settings are read as that command reads them, and its
// addresses lead to the other services.
func TestComposeRunsOurCommands(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		if s.Build == nil {
			continue
		}
		ourCommand(t, name, s.Command)
		ourCommand(t, name+"'s health check", s.Healthcheck.Test[2:])
		if want := (composeBuild{".", "deploy/Dockerfile"}); *s.Build != want {
			t.Errorf("%s is built from %+v", name, *s.Build)
		}
		t.Run(name, func(t *testing.T) {
			for key, value := range s.Environment {
				t.Setenv(key, secret.ReplaceAllString(value, "secret"))
			}
			cmd, _, err := root().Find(s.Command)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(cmd.Flags())
			if err != nil {
				t.Fatal(err)
			}
			for at, want := range map[string]string{cfg.NATS.URL: "nats", cfg.ClickHouse.URL: "clickhouse"} {
				u, err := url.Parse(at)
				if err != nil || u.Hostname() != want || s.DependsOn[want].Condition == "" {
					t.Errorf("%s: %v; want service %s, and to wait for it", at, err, want)
					continue
				}
				if p := "127.0.0.1:" + u.Port() + ":" + u.Port(); !slices.Contains(c.Services[want].Ports, p) {
					t.Errorf("%s: service %s has the ports %v", at, want, c.Services[want].Ports)
				}
				if u.User.Username() != "gpuhour" {
					t.Errorf("%s: the user is %s", at, u.User.Username())
				}
			}
			if cfg.HTTP.Listen == "" {
				t.Error("there is no address for the health check")
			}
		})
	}
	if user := c.Services["clickhouse"].Environment["CLICKHOUSE_USER"]; user != "gpuhour" {
		t.Errorf("ClickHouse's user is %q", user)
	}
}

func ourCommand(t *testing.T, what string, words []string) {
	t.Helper()
	if len(words) == 0 {
		t.Errorf("%s names no command", what)
		return
	}
	if c, rest, err := root().Find(words); err != nil || c == root() || len(rest) > 0 {
		t.Errorf("%s: %v is no command of gpuhour: %v, %v", what, words, rest, err)
	}
}

// TestComposeEnginesAreTheTestedOnes: the tests run NATS and ClickHouse of these versions.
func TestComposeEnginesAreTheTestedOnes(t *testing.T) {
	c := readCompose(t)
	minor := func(version string) string { return strings.Join(strings.SplitN(version, ".", 3)[:2], ".") }
	for name, want := range map[string]string{
		"nats":       "nats:" + minor(server.VERSION) + "-alpine",
		"clickhouse": "clickhouse/clickhouse-server:" + minor(embedded.Version),
	} {
		if got := c.Services[name].Image; got != want {
			t.Errorf("%s runs %s; want %s", name, got, want)
		}
	}
}

func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(readFile(t, "deploy", "Dockerfile"), "\\\n", " ")
	stages := map[string]bool{}
	var user string
	seen := map[string]int{}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[word]++
		switch word {
		case "FROM":
			image, stage, _ := strings.Cut(rest, " AS ")
			if host, _, nested := strings.Cut(image, "/"); nested && strings.ContainsAny(host, ".:") {
				t.Errorf("FROM %s names a host", image)
			}
			stages[stage], user = true, ""
		case "USER":
			user = rest
		case "COPY":
			if from, ok := strings.CutPrefix(rest, "--from="); ok {
				if stage, _, _ := strings.Cut(from, " "); !stages[stage] {
					t.Errorf("COPY %s: there is no such stage", rest)
				}
			}
		case "ENTRYPOINT":
			if rest != `["gpuhour"]` {
				t.Errorf("ENTRYPOINT %s", rest)
			}
		case "HEALTHCHECK":
			_, list, _ := strings.Cut(rest, "CMD ")
			var words []string
			if err := json.Unmarshal([]byte(list), &words); err != nil || words[0] != "gpuhour" {
				t.Fatalf("HEALTHCHECK %s: %v", rest, err)
			}
			ourCommand(t, "HEALTHCHECK", words[1:])
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the last stage runs as %q", user)
	}
	if seen["FROM"] != 2 || seen["HEALTHCHECK"] != 1 || seen["ENTRYPOINT"] != 1 {
		t.Errorf("instructions: %v", seen)
	}
	if !strings.Contains(text, "go build -trimpath -buildvcs=false -o /gpuhour ./cmd/gpuhour\n") {
		t.Error("it does not build ./cmd/gpuhour")
	}
	goLine := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))
	if from := fmt.Sprintf("FROM golang:%s-", goLine[1]); !strings.Contains(text, from) {
		t.Errorf("it does not build %s, as go.mod says", from)
	}
}

// TestNATSConf reads the server's settings as the server does. That a stream cannot be deleted under them is shown on a
// running one, in the root package's processes test.
func TestNATSConf(t *testing.T) {
	path := filepath.Join(repository, "deploy", "nats", "nats.conf")
	if o, err := server.ProcessConfigFile(path); err == nil {
		t.Errorf("it starts without a password: %+v", o.Users)
	}
	t.Setenv("NATS_PASSWORD", "secret")
	o, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !o.JetStream || !o.SyncAlways || o.StoreDir != "/data" || o.Port != 4222 {
		t.Errorf("JetStream %v, synced %v, in %s, on port %d", o.JetStream, o.SyncAlways, o.StoreDir, o.Port)
	}
	if len(o.Users) != 1 || o.Users[0].Username != "gpuhour" || o.Users[0].Password != "secret" || o.NoAuthUser != "" ||
		!slices.Equal(o.Users[0].Permissions.Publish.Deny, []string{"$JS.API.STREAM.DELETE.>"}) {
		t.Errorf("the users are %+v", o.Users)
	}
	c := readCompose(t).Services["nats"]
	for _, want := range []string{"nats:" + o.StoreDir, "./deploy/nats/nats.conf:/etc/nats/nats.conf:ro"} {
		if !slices.Contains(c.Volumes, want) {
			t.Errorf("the volumes are %v; want %s", c.Volumes, want)
		}
	}
	health := fmt.Sprintf("http://%s:%d/healthz", o.HTTPHost, o.HTTPPort)
	if !strings.HasPrefix(c.Healthcheck.Test[len(c.Healthcheck.Test)-1], health) {
		t.Errorf("the health check is %v; the server answers at %s", c.Healthcheck.Test, health)
	}
	if !slices.Equal(c.Command, []string{"nats-server", "--config", "/etc/nats/nats.conf"}) {
		t.Errorf("the command is %v", c.Command)
	}
}

func TestClickHouseConfig(t *testing.T) {
	var c struct {
		MergeTree map[string]int `yaml:"merge_tree"`
	}
	text := readFile(t, "deploy", "clickhouse", "config.d", "gpuhour.yaml")
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict()).Decode(&c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fsync_after_insert", "fsync_part_directory"} {
		if c.MergeTree[name] != 1 {
			t.Errorf("%s is %d", name, c.MergeTree[name])
		}
	}
}
