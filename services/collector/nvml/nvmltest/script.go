package nvmltest

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The environment through which the library finds its script. A name that begins with GPUHOUR_ would be a setting of the program.
const (
	EnvScript = "NVML_STUB"
	EnvNews   = "NVML_STUB_NEWS"
)

// Sizes that the library knows too.
const (
	fileBytes = 256 << 10
	maxEvents = 256
)

// awaitAtMost ends a test that waits for what never comes.
const awaitAtMost = 30 * time.Second

// Script is the state that the library plays. It is used by one goroutine.
type Script struct {
	file    *os.File
	news    *os.File
	lines   *bufio.Reader
	version int
	scopes  map[string]*Scope
	events  []string
	named   int // events so far
}

// Scope is the node, a GPU or a slice in the script.
type Scope struct {
	name   string
	values map[string]string
	rules  map[string]string
}

// Start makes a script for the library of this process, names it in the environment of the test and ends it with the test, when
// calls that still hang are let go.
func Start(t testing.TB) *Script {
	t.Helper()
	Build(t)
	dir := t.TempDir()
	s, err := NewScript(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, scope := range s.scopes {
			scope.Clear()
		}
		s.Play(t)
		_ = s.Close()
	})
	t.Setenv(EnvScript, s.Path())
	t.Setenv(EnvNews, s.News())
	return s
}

// NewScript makes a script in dir, with a node and no GPU. A process whose environment names Path in EnvScript, and News in
// EnvNews, plays it.
func NewScript(dir string) (*Script, error) {
	s := &Script{scopes: map[string]*Scope{}}
	file, err := os.Create(filepath.Join(dir, "script"))
	if err != nil {
		return nil, fmt.Errorf("make a script of the NVML stub: %w", err)
	}
	s.file = file
	if err := file.Truncate(fileBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("make a script of the NVML stub: %w", err), file.Close())
	}
	if s.news, err = openPipe(filepath.Join(dir, "news")); err != nil {
		return nil, errors.Join(fmt.Errorf("make the pipe of the NVML stub: %w", err), file.Close())
	}
	s.lines = bufio.NewReader(s.news)
	s.Node().Set("driver", "580.65.06").Set("nvml", "13.580.65.06").Set("session", 1)
	return s, s.Write()
}

// Path is the script's file.
func (s *Script) Path() string { return s.file.Name() }

// News is the pipe on which the library tells what Await waits for.
func (s *Script) News() string { return s.news.Name() }

// Close gives up the script's files; the library keeps the last state.
func (s *Script) Close() error { return errors.Join(s.file.Close(), s.news.Close()) }

// Node is what concerns no single GPU.
func (s *Script) Node() *Scope { return s.scope("node") }

// GPU is the GPU at an index. It exists once a value is set.
func (s *Script) GPU(index int) *Scope { return s.scope(fmt.Sprintf("gpu%d", index)) }

// Slice is a MIG device of a GPU.
func (s *Script) Slice(gpu, index int) *Scope { return s.scope(fmt.Sprintf("gpu%d.%d", gpu, index)) }

func (s *Script) scope(name string) *Scope {
	if s.scopes[name] == nil {
		s.scopes[name] = &Scope{name: name, values: map[string]string{}, rules: map[string]string{}}
	}
	return s.scopes[name]
}

// Remove takes a GPU or a slice away. GPUs behind it keep their index: remove the last, or set anew.
func (s *Script) Remove(scope *Scope) { delete(s.scopes, scope.name) }

// Event gives the GPU at an index an event of NVML's type, such as 8 for an XID, with its data. It is delivered once, to a set
// that is registered for it by then.
func (s *Script) Event(gpu int, kind, data uint64) {
	s.named++
	s.events = append(s.events, fmt.Sprintf("node event %d %d %d %d\n", s.named, gpu, kind, data))
	if len(s.events) > maxEvents {
		s.events = s.events[1:]
	}
}

// Play makes the state so far the one that the library's next call sees.
func (s *Script) Play(t testing.TB) {
	t.Helper()
	if err := s.Write(); err != nil {
		t.Fatal(err)
	}
}

// Write is Play without a test. The first line numbers the state; while it is blank, the library goes on with the one before.
func (s *Script) Write() error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.scopes)) {
		s.scopes[name].write(&b)
	}
	b.WriteString(strings.Join(s.events, ""))
	s.version++
	head := fmt.Sprintf("%010d\n", s.version)
	body := make([]byte, fileBytes-len(head))
	if copy(body, b.String()); b.Len() >= len(body) {
		return fmt.Errorf("the script of the NVML stub has %d bytes; at most %d", b.Len(), len(body)-1)
	}
	for _, part := range []struct {
		at   int64
		text []byte
	}{{0, []byte(strings.Repeat(" ", len(head)))}, {int64(len(head)), body}, {0, []byte(head)}} {
		if _, err := s.file.WriteAt(part.text, part.at); err != nil {
			return fmt.Errorf("write the script of the NVML stub: %w", err)
		}
	}
	return nil
}

// Await waits until the library says a line that begins so, and forgets the lines before it.
func (s *Script) Await(t testing.TB, prefix string) string {
	t.Helper()
	lines := s.Until(t, prefix)
	return lines[len(lines)-1]
}

// Until waits as Await does, and returns the lines that came before too.
func (s *Script) Until(t testing.TB, prefix string) (lines []string) {
	t.Helper()
	if err := s.news.SetReadDeadline(time.Now().Add(awaitAtMost)); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("wait for %q of the NVML stub: %v", prefix, err)
		}
		if lines = append(lines, strings.TrimSpace(line)); strings.HasPrefix(line, prefix) {
			return lines
		}
	}
}

func (c *Scope) write(b *strings.Builder) {
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		fmt.Fprintf(b, "%s %s %s\n", c.name, key, c.values[key])
	}
	for _, call := range slices.Sorted(maps.Keys(c.rules)) {
		fmt.Fprintf(b, "%s %s\n", c.name, c.rules[call])
	}
}

// Set gives a key a value.
func (c *Scope) Set(key string, value any) *Scope {
	c.values[key] = fmt.Sprint(value)
	return c
}

// Unset takes keys away: what they are for is not supported.
func (c *Scope) Unset(keys ...string) *Scope {
	for _, key := range keys {
		delete(c.values, key)
	}
	return c
}

// Fail makes a call return an error code; "*" is every call of the scope, "field.230" one value of GetFieldValues, "gpm.1" the
// metric alone.
func (c *Scope) Fail(call string, code int) *Scope {
	c.rules[call] = fmt.Sprintf("fail %s %d", call, code)
	return c
}

// Hang makes a call block for as long as the script says so; "*" is every call of the scope.
func (c *Scope) Hang(call string) *Scope {
	c.rules[call] = "hang " + call
	return c
}

// Clear takes all of the scope's failures and hangs away.
func (c *Scope) Clear() *Scope {
	clear(c.rules)
	return c
}

// Hopper makes the scope a GPU that answers everything, GPM too; all counters and loads are 0.
func (c *Scope) Hopper(uuid string) *Scope {
	return c.Ampere(uuid).Set("name", "NVIDIA H100 80GB HBM3").Set("gpm_support", 1).Set("gpm", 0).Set("memory_total", int64(80)<<30)
}

// Ampere makes the scope a GPU that answers everything but GPM; all counters and loads are 0.
func (c *Scope) Ampere(uuid string) *Scope {
	for _, key := range []string{
		"util", "power", "energy", "throttle", "ecc", "recovery", "remap_pending", "remap_failure", "memory_used",
		"memory_reserved", "gpm_support", "mig",
	} {
		c.Set(key, 0)
	}
	return c.Set("uuid", uuid).Set("name", "NVIDIA A100-SXM4-40GB").Set("serial", "S-"+uuid).Set("pci", pci(c.name)).
		Set("memory_total", int64(40)<<30).Set("ring", "").Set("persistence", 1).Set("events", 0xff9f)
}

// MIG makes the scope a slice of a GPU, a GPU instance with one compute instance.
func (c *Scope) MIG(uuid, profile string, gi int) *Scope {
	return c.Set("uuid", uuid).Set("name", "NVIDIA H100 80GB HBM3 MIG "+profile).Set("gi", gi).Set("ci", 0).Set("gpm", 0).
		Set("gi_slices", 1).Set("ci_slices", 1).Set("attribute_mb", 9856).Set("memory_total", int64(9856)<<20).Set("memory_used", 0)
}

func pci(scope string) string {
	index := 0
	_, _ = fmt.Sscanf(scope, "gpu%d", &index)
	return fmt.Sprintf("00000000:%02X:00.0", 0x10+index)
}
