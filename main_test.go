package gpuhour_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// child makes this test binary another process: what it is to do, and on which data directory.
const child = "GPUHOUR_TEST_CHILD"

func TestMain(m *testing.M) {
	if task := os.Getenv(child); task != "" {
		what, dir, _ := strings.Cut(task, " ")
		if err := childTasks()[what](context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		worlds := "200"
		if testing.Short() {
			worlds = "1000" // rapid takes a fifth of them
		}
		_ = f.Value.Set(worlds)
	}
	os.Exit(m.Run())
}

func childTasks() map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{
		"play": playChild, "preview": previewChild, "nats": natsChild, "clickhouse": clickHouseChild,
	}
}

// process is a running child and what it prints, line by line.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
	said  *strings.Builder // on its standard error
}

// start runs a child, which ends at the latest some minutes after it.
func start(t testing.TB, what, arg string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0]), said: &strings.Builder{}}
	p.Env, p.Stderr, p.SysProcAttr = append(os.Environ(), child+"="+what+" "+arg), p.said, endsWithParent()
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	return p
}
