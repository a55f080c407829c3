package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpuhour/gpuhour/platform/config"
)

// flagsOf checks that words are a command of gpuhour with flags that it has.
func flagsOf(t *testing.T, what string, words []string) {
	t.Helper()
	c, rest, err := root().Find(words)
	if err != nil || c == root() {
		t.Fatalf("%s: %v is no command of gpuhour: %v", what, words, err)
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// settingsOf checks that variables are settings, as the command that they are given to reads them.
func settingsOf(t *testing.T, command string, environment map[string]string) config.Config {
	t.Helper()
	for key, value := range environment {
		if strings.HasPrefix(key, config.EnvPrefix) {
			t.Setenv(key, value)
		}
	}
	c, _, err := root().Find([]string{command})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(c.Flags())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// unitFile reads a systemd unit: its directives by section, each with all its values.
func unitFile(t *testing.T, text string) map[string][]string {
	t.Helper()
	all, section := map[string][]string{}, ""
	for n, line := range strings.Split(text, "\n") {
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		case !ok || section == "":
			t.Fatalf("line %d is no directive: %s", n+1, line)
		default:
			all[section+"."+key] = append(all[section+"."+key], value)
		}
	}
	return all
}

func TestSystemdUnit(t *testing.T) {
	unit := unitFile(t, readFile(t, "deploy", "systemd", "gpuhour-collector.service"))
	one := func(key string) string {
		t.Helper()
		if len(unit[key]) != 1 {
			t.Fatalf("%s is there %d times", key, len(unit[key]))
		}
		return unit[key][0]
	}
	command := strings.Fields(one("Service.ExecStart"))
	if command[0] != "/usr/local/bin/gpuhour" {
		t.Errorf("it starts %s", command[0])
	}
	flagsOf(t, "ExecStart", command[1:])
	made := strings.Fields(one("Service.ExecStartPre")) // a collector that is told of a key does not start without it
	flagsOf(t, "ExecStartPre", made[1:])
	if made[len(made)-1] != command[len(command)-1] || !slices.Contains(made, "--keep") {
		t.Errorf("%v makes another key than %v reads", made, command)
	}
	environment := map[string]string{}
	for _, pair := range strings.Fields(one("Service.Environment")) {
		key, value, _ := strings.Cut(pair, "=")
		environment[key] = value
	}
	if cfg := settingsOf(t, "collector", environment); cfg.HTTP.Listen == "" {
		t.Error("nobody can ask whether it samples")
	}
	// What its comments rest on: the clock can be read and not set, a stop has time, and it comes back.
	for key, want := range map[string]string{
		"Service.KillSignal": "SIGTERM", "Service.Restart": "always", "Service.NoNewPrivileges": "yes", "Service.CapabilityBoundingSet": "",
		"Service.DynamicUser": "yes", "Service.StateDirectory": "gpuhour-collector", "Service.DevicePolicy": "closed", "Service.SystemCallErrorNumber": "EPERM", "Service.TimeoutStopSec": "60",
	} {
		if got := one(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if !slices.Contains(unit["Service.SystemCallFilter"], "adjtimex clock_adjtime sched_setaffinity setpriority") || unit["Service.ProtectClock"] != nil {
		t.Errorf("the clock cannot be read under %v", unit["Service.SystemCallFilter"])
	}
}

// workload is the part of a DaemonSet that is checked.
type workload struct {
	Kind string `yaml:"kind"`
	Spec struct {
		Template struct {
			Spec struct {
				Grace          int         `yaml:"terminationGracePeriodSeconds"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container `yaml:"containers"`
				Volumes        []struct {
					Name     string            `yaml:"name"`
					HostPath map[string]string `yaml:"hostPath"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Args []string `yaml:"args"`
	Env  []struct{ Name, Value string }
	// VolumeMounts by name.
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

func TestDaemonSet(t *testing.T) {
	var set workload
	for _, document := range strings.Split(readFile(t, "deploy", "kubernetes", "collector.yaml"), "\n---\n") {
		var w workload
		if err := yaml.Unmarshal([]byte(document), &w); err != nil {
			t.Fatal(err)
		}
		if w.Kind == "DaemonSet" {
			set = w
		}
	}
	pod := set.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 || pod.Grace < 30 {
		t.Fatalf("the pod is %+v", pod)
	}
	volumes := map[string]string{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.HostPath["path"]
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		flagsOf(t, "the pod", c.Args)
		environment := map[string]string{}
		for _, e := range c.Env {
			environment[e.Name] = e.Value
		}
		cfg := settingsOf(t, "collector", environment)
		if c.Args[0] == "collector" && (cfg.NATS.URL == "" || cfg.HTTP.Listen == "") {
			t.Errorf("its settings are %+v", cfg)
		}
		for _, m := range c.VolumeMounts {
			if at, ok := volumes[m.Name]; !ok || m.Name == "state" && at != m.MountPath {
				t.Errorf("%v mounts %s at %s; the volume lies at %q", c.Args, m.Name, m.MountPath, at)
			}
		}
	}
}

// TestCollectorImage: it is built with cgo, which NVML needs, and its command is one.
func TestCollectorImage(t *testing.T) {
	text := readFile(t, "deploy", "collector.Dockerfile")
	if !strings.Contains(text, "ENV CGO_ENABLED=1") {
		t.Error("the image is built without cgo and so without NVML")
	}
	_, after, ok := strings.Cut(text, "\nCMD ")
	var words []string
	if !ok || yaml.Unmarshal([]byte(after), &words) != nil {
		t.Fatalf("there is no command in %q", after)
	}
	flagsOf(t, "CMD", words)
}
