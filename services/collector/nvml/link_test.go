//go:build linux && cgo && (amd64 || arm64)

package nvml

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// toldBefore makes TestCallsThatHaveNoFunction the first and only test of a process, in which no library is loaded yet.
const toldBefore = "GPUHOUR_NVML_BEFORE"

// TestListIsWhole compares symbols.h with the calls of go-nvml and with what its header says they return: after an upgrade of the
// module the list has to follow, or the program does not start on machines that bind at once.
func TestListIsWhole(t *testing.T) {
	binding := filepath.Join(moduleDir(t), "pkg", "nvml")
	sources, err := filepath.Glob(filepath.Join(binding, "*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources in %s: %v", binding, err)
	}
	want := map[string]string{}
	for _, source := range sources {
		for _, call := range matches(t, source, `\bC\.(nvml\w+)\(`) {
			if !strings.HasSuffix(call[1], "_t") { // a conversion
				want[call[1]] = ""
			}
		}
	}
	for _, declared := range matches(t, filepath.Join(binding, "nvml.h"), `(?m)^.*\bDECLDIR\b.*?\b(nvml\w+) ?\(.*$`) {
		if _, called := want[declared[1]]; !called {
			continue
		}
		want[declared[1]] = "TEXT"
		if regexp.MustCompile(`\bnvmlReturn_t +DECLDIR\b`).MatchString(declared[0]) {
			want[declared[1]] = "CALL"
		}
	}
	got := map[string]string{}
	for _, line := range matches(t, "symbols.h", `(?m)^(CALL|TEXT)\((nvml\w+)\)$`) {
		if got[line[2]] != "" {
			t.Errorf("symbols.h has %s twice", line[2])
		}
		got[line[2]] = line[1]
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 400 {
		t.Errorf("symbols.h is not what go-nvml calls (-go-nvml +symbols.h):\n%s", diff)
	}
}

func matches(t *testing.T, file, pattern string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
}

func moduleDir(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(goTool(t, "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml"))
}

func goTool(t *testing.T, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("go")
	nvmltest.Need(t, err)
	cmd := exec.Command(tool, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out)
}

// TestProgramStartsHoweverItIsLinked: all calls are bound before its first instruction, and it works; without a driver it says so.
func TestProgramStartsHoweverItIsLinked(t *testing.T) {
	library := nvmltest.Build(t)
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	s.Play(t)
	works := func(t *testing.T, program string, env ...string) {
		t.Helper()
		isWhole(t, program)
		if got, want := inProgram(t, program, library, s, env...), "GPU-a 40 1000 250000 7000 4"; got != want {
			t.Errorf("with a driver: %s\nwant %s", got, want)
		}
		missing := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
		if got := inProgram(t, program, missing, s, env...); !strings.Contains(got, "install the NVIDIA driver") {
			t.Errorf("without a driver: %s", got)
		}
	}
	t.Run("loader that binds at once", func(t *testing.T) { works(t, os.Args[0], "LD_BIND_NOW=1") })
	t.Run("linked with -z now", func(t *testing.T) {
		if testing.Short() {
			t.Skip("links the package's tests anew")
		}
		program := filepath.Join(t.TempDir(), "now.test")
		goTool(t, "test", "-c", "-o", program, "-ldflags=-extldflags=-Wl,-z,relro,-z,now", ".")
		if !bindsAtOnce(t, program) {
			t.Fatal("the linker did not mark the program: this proves nothing")
		}
		works(t, program)
	})
}

// isWhole wants a program that neither lacks an nvml function nor offers its own to libraries, with a stack that does not execute.
func isWhole(t *testing.T, program string) {
	t.Helper()
	f := open(t, program)
	symbols, err := f.DynamicSymbols()
	if err != nil || len(symbols) == 0 {
		t.Fatalf("%s has %d dynamic symbols: %v", program, len(symbols), err)
	}
	for _, symbol := range symbols {
		if strings.HasPrefix(symbol.Name, "nvml") {
			t.Errorf("%s leaves %s to the dynamic linker", program, symbol.Name)
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X != 0 {
			t.Errorf("%s has an executable stack", program)
		}
	}
}

func bindsAtOnce(t *testing.T, program string) bool {
	t.Helper()
	f := open(t, program)
	flags, err := f.DynValue(elf.DT_FLAGS)
	if err != nil {
		t.Fatal(err)
	}
	flags1, err := f.DynValue(elf.DT_FLAGS_1)
	if err != nil {
		t.Fatal(err)
	}
	has := func(bit uint64) func(uint64) bool { return func(v uint64) bool { return v&bit != 0 } }
	return slices.ContainsFunc(flags, has(uint64(elf.DF_BIND_NOW))) || slices.ContainsFunc(flags1, has(uint64(elf.DF_1_NOW)))
}

func open(t *testing.T, program string) *elf.File {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestCallsThatHaveNoFunction: before the library is loaded, and after it is one that lacks them, calls return a code.
func TestCallsThatHaveNoFunction(t *testing.T) {
	library := nvmltest.Build(t)
	if os.Getenv(toldBefore) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), toldBefore+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("the process that calls: %v\n%s", err, out)
		}
		return
	}
	if _, r := gonvml.SystemGetDriverVersion(); r != gonvml.ERROR_UNINITIALIZED {
		t.Errorf("before the library is loaded: %v", r)
	}
	if got := gonvml.ErrorString(gonvml.ERROR_UNINITIALIZED); got == "" {
		t.Error("an error without words")
	}
	n := start(t, nvmltest.Start(t))
	lib, _, err := load(library)
	if err != nil {
		t.Fatal(err)
	}
	if _, r := lib.SystemGetDriverVersion(); r != gonvml.SUCCESS {
		t.Errorf("a call that the library has: %v", r)
	}
	if _, r := lib.DeviceGetHandleBySerial("S"); r != gonvml.ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("a call that it lacks: %v", r)
	}
	if err := n.h.Close(); err != nil {
		t.Fatal(err)
	}
}
