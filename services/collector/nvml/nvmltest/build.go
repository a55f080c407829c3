package nvmltest

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

//go:embed stub
var sources embed.FS

// libraryName is the one that a driver installs.
const libraryName = "libnvidia-ml.so.1"

// built is the library of this process: a process loads one, and its folder has to outlive the test that built it.
//
//tidy:process
var built struct {
	sync.Mutex
	dir, path string
	err       error
}

// Main runs a package's tests with a folder for the library, which is gone afterwards, and returns the exit status.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpuhour-nvml")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the NVML stub:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built.dir = dir
	return m.Run()
}

// Build compiles the library once in this process and returns its path. Without a C compiler the test is left out, loudly, and
// with REQUIRE_STACK=1 it fails.
func Build(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		t.Fatal("TestMain of this package has to call nvmltest.Main: a process has one NVML library")
	}
	if built.path == "" && built.err == nil {
		built.path, built.err = Compile(built.dir)
	}
	Need(t, built.err)
	return built.path
}

// Need ends a test that cannot be had here: skipped with the reason, or failed with REQUIRE_STACK=1 or where the cause is ours.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("REQUIRE_STACK") != "1":
		t.Skipf("NOT TESTED, NO COMPILER: %v", err)
	default:
		t.Fatal(err)
	}
}

// Compile builds a library in dir and returns its path. without names symbols that it shall not have, as older drivers do not:
// nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetCurrentClocksEventReasons,
// nvmlDeviceGetFieldValues, nvmlDeviceGetMigMode, or gpm for all of GPM. The compiler is $CC or gcc.
func Compile(dir string, without ...string) (path string, err error) {
	compiler, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "gcc"))
	if err != nil {
		return "", fmt.Errorf("build the NVML stub: install gcc, or name a C compiler in CC: %w", err)
	}
	path = filepath.Join(dir, libraryName)
	args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-Bsymbolic", "-o", path}
	for _, symbol := range without {
		args = append(args, "-DWITHOUT_"+symbol)
	}
	stub, err := fs.Sub(sources, "stub")
	if err != nil {
		return "", err
	}
	from, err := os.MkdirTemp(dir, "stub")
	if err != nil {
		return "", fmt.Errorf("unpack the NVML stub: %w", err)
	}
	defer func() { _ = os.RemoveAll(from) }()
	if err := os.CopyFS(from, stub); err != nil {
		return "", fmt.Errorf("unpack the NVML stub: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(from, "*.c"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command(compiler, append(append(args, files...), "-lpthread")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the NVML stub: %w\n%s", err, out)
	}
	return path, nil
}
