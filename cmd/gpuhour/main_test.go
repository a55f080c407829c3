package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuhour/gpuhour/core/must"
)

// result is what a call of gpuhour printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// String is the call as a golden file shows it.
func (r result) String() string {
	text := r.out
	if r.err != "" {
		text += "[stderr]\n" + r.err
	}
	if r.code != 0 {
		text += fmt.Sprintf("[exit %d]\n", r.code)
	}
	return text
}

// call runs gpuhour in this process, as main does.
func call(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return runCommand(t.Context(), root(), stdin, args)
}

func runCommand(ctx context.Context, c *cobra.Command, stdin string, args []string) result {
	var out, errOut bytes.Buffer
	c.SetArgs(args)
	c.SetIn(strings.NewReader(stdin))
	c.SetOut(&out)
	c.SetErr(&errOut)
	code := execute(ctx, c, &errOut)
	return result{out.String(), errOut.String(), code}
}

// golden holds a text against testdata/NAME. GOLDEN=rewrite writes it; look at the difference before it is kept.
func golden(t *testing.T, name, got string) {
	t.Helper()
	held(t, filepath.Join(testdata(t), name), got)
}

// calls runs several calls and holds all that they print against one golden file.
func calls(t *testing.T, name string, all ...[]string) {
	t.Helper()
	var text strings.Builder
	for _, args := range all {
		fmt.Fprintf(&text, "$ gpuhour %s\n%s\n", strings.Join(args, " "), call(t, "", args...))
	}
	golden(t, name, text.String())
}

// testdata is this package's, wherever a test has changed to.
func testdata(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if data := filepath.Join(dir, "testdata"); filepath.Base(dir) == "gpuhour" && exists(data) {
			return data
		}
	}
	return os.Getenv(testdataOfMoved)
}

// testdataOfMoved is the variable in which moved keeps it; GPUHOUR_ would make it a setting.
const testdataOfMoved = "CMD_TESTDATA"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// moved makes a new directory with files the working one, so that what is printed names no temporary path.
func moved(t *testing.T, files map[string]string) {
	t.Helper()
	t.Setenv(testdataOfMoved, testdata(t))
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// everyCommand walks the tree.
func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, visit)
	}
}

// TestHelp: every command says in one line what it does, shows its flags, and fits a page of 100 columns.
func TestHelp(t *testing.T) {
	everyCommand(root(), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its line of help is %q", c.CommandPath(), c.Short)
		}
		if !c.Runnable() || c.Args == nil {
			t.Errorf("%s does not check its arguments", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no help", c.CommandPath(), f.Name)
			}
		})
		got := call(t, "", append(path, "--help")...)
		if got.code != 0 || got.err != "" || !strings.Contains(got.out, "Usage:") {
			t.Errorf("%s --help: %v", c.CommandPath(), got)
		}
		for line := range strings.Lines(got.out) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
	})
	golden(t, "help.golden", call(t, "").out)
}

var (
	code    = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]+`")
	called  = regexp.MustCompile(`\bgpuhour ([a-z]+(?:-[a-z]+)*(?: [a-z]+)?)`)
	written = regexp.MustCompile(`--[a-z][a-z-]+`)
)

// TestDocumentsNameWhatExists follows the commands and flags in the code of the documents.
func TestDocumentsNameWhatExists(t *testing.T) {
	for name, least := range map[string]int{"README.md": 8, "ARCHITECTURE.md": 0, "CONTRIBUTING.md": 0, "docs/configuration.md": 0, "docs/format.md": 0, "docs/ingest.md": 2, "docs/collector.md": 3, "docs/facts.md": 3, "docs/nodes.md": 8, "docs/contract.md": 4, "docs/scenario.md": 2, "examples/contracts/README.md": 0} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(strings.Join(code.FindAllString(string(text), -1), "\n")) {
			for _, m := range called.FindAllStringSubmatch(line, -1) {
				words := strings.Fields(m[1])
				c, _, err := root().Find(words)
				if err != nil || c.Name() != words[0] && c.Name() != words[1] {
					t.Errorf("%s names `gpuhour %s`, which does not exist", name, m[1])
					continue
				}
				found++
				for _, flag := range written.FindAllString(line, -1) {
					if c.Flags().Lookup(flag[2:]) == nil && !ofSiblings(c, flag[2:]) {
						t.Errorf("%s names %s of `%s`, which it does not have", name, flag, c.CommandPath())
					}
				}
			}
		}
		if found < least {
			t.Errorf("%s shows only %d commands, want %d", name, found, least)
		}
	}
}

// ofSiblings: a line such as "invoice list | show | preview" names flags of each.
func ofSiblings(c *cobra.Command, flag string) bool {
	for _, sub := range c.Commands() {
		if sub.Flags().Lookup(flag) != nil {
			return true
		}
	}
	return c.HasParent() && c.Parent().HasParent() && ofSiblings(c.Parent(), flag)
}

func TestVersion(t *testing.T) {
	got := call(t, "", "version")
	if ok := regexp.MustCompile(`^gpuhour    \d+\.\d+\.\d+\ncommit     \w+\ngo         go1\S* \w+/\w+\ntz rules   20\d\d[a-z]\nClickHouse \S+ \(inside\)\n$`).MatchString(got.out); !ok || got.code != 0 {
		t.Errorf("version: %v", got)
	}
}

// TestWrongCalls: each error says what is wrong and what to do.
func TestWrongCalls(t *testing.T) {
	moved(t, map[string]string{
		"facts.jsonl": leases("L1"), "acme.yaml": contractText, "empty.jsonl": "\n\n", "empty.yaml": "", "gpuhour.yaml": "nats: {urll: x}\n",
	})
	calls(
		t, "calls.golden", []string{"raet"}, []string{"xyz"}, []string{"import", "slurm"}, []string{"invoice", "shwo"}, []string{"--fast"},
		[]string{"rate"}, []string{"rate", "--fast"}, []string{"version", "now"}, []string{"invoice", "show"}, []string{"doctor", "--nats-replicas", "x"},
		[]string{"rate", "acme.yaml"}, []string{"rate", "facts.jsonl", "acme.yaml"}, []string{"rate", "facts.jsonl"},
		[]string{"rate", "acme.yaml", "--contract", "acme.yaml"}, []string{"rate", "acme.yaml", "--lang", "cn"}, []string{"rate", "acme.yaml", "--until", "2026-06-01T03:00:00Z"},
		[]string{"rate", "none.jsonl"}, []string{"rate", "none.yaml"}, []string{"rate", "empty.jsonl", "--contract", "acme.yaml"}, []string{"rate", "empty.yaml"},
		[]string{"rate", "facts.jsonl", "--contract", "none.yaml"}, []string{"rate", "facts.jsonl", "--contract", "empty.yaml"},
		[]string{"rate", "facts.jsonl", "--contract", "acme.yaml,acme.yaml"},
		[]string{"rate", "facts.jsonl", "--contract", "acme.yaml", "--until", "tomorrow"},
		[]string{"rate", "facts.jsonl", "--contract", "acme.yaml", "--format", "xml"}, []string{"rate", "facts.jsonl", "--contract", "acme.yaml", "--lang", "fr"},
		[]string{"import", "openb", "--start", "monday"}, []string{"import", "openb", "--nodes", "nodes.csv"},
		[]string{"import", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv"}, []string{"import", "openb", "--out", "none/facts.jsonl"},
		[]string{"publish", "facts.jsonl"}, []string{"doctor"}, []string{"refusals"}, []string{"invoice", "list"}, []string{"invoice", "preview", "acme-2026", "--at", "may"},
		[]string{"invoice", "list", "--format", "xml"}, []string{"refusals", "--lang", "fr"}, []string{"collector", "now"}, []string{"collector", "--vendor", "amd"}, []string{"resume", "--by", ""},
		[]string{"rater"}, []string{"invoicer", "--nats-url", "nats://n:4222"}, []string{"demo", "--lang", "fr"},
		[]string{"demo", "--hours", "1"}, []string{"demo", "--nats-url", "nats://n:4222"}, []string{"demo", "--services-elsewhere"},
		[]string{"serve", "--config", "none.yaml"}, []string{"serve", "--config", "gpuhour.yaml"}, []string{"serve", "--log-level", "loud"},
	)
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 5 {
		t.Errorf("a wrong call left something behind: %v, %v", entries, err)
	}
}

// failing is gpuhour with one more command.
func failing(run func() error) *cobra.Command {
	c := root()
	c.AddCommand(&cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return run() }})
	return c
}

// TestFaults: a person never meets a stack, but is told where it is kept.
func TestFaults(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		run  func() error
		want string
	}{
		"assertion": {func() error { must.Never("quantity %d is negative", -1); return nil }, "gpuhour: assertion broken: quantity -1 is negative\n"},
		"panic":     {func() error { panic("index out of range") }, "gpuhour: index out of range\n"},
	} {
		got := runCommand(t.Context(), failing(c.run), "", []string{"fail"})
		if got.code != 3 || got.out != "" || !strings.HasPrefix(got.err, c.want+"This is a fault of gpuhour, not of your input. Please report it with this command:\n  ") {
			t.Errorf("%s: %v", name, got)
		}
		if strings.Contains(got.err, "goroutine") {
			t.Errorf("%s: a stack is shown: %v", name, got)
		}
		m := regexp.MustCompile(`and with the file (\S+), which`).FindStringSubmatch(got.err)
		if m == nil {
			t.Fatalf("%s names no file: %v", name, got)
		}
		if stack, err := os.ReadFile(m[1]); err != nil || !strings.Contains(string(stack), "main_test.go") {
			t.Errorf("%s: stack %s, %v", name, stack, err)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	got := runCommand(ctx, failing(func() error { return errors.Join(errors.New("read the log"), ctx.Err()) }), "", []string{"fail"})
	if diff := cmp.Diff(result{err: "gpuhour: interrupted\n", code: 130}, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
