//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// child samples one second through another library and prints it.
func child(path string) int {
	h, err := Open(Options{LibraryPath: path, EventWait: 20 * time.Millisecond})
	if err != nil {
		fmt.Println("again:", errors.Is(err, collector.ErrSession), why(err), err)
		return 0
	}
	units, err := h.Scan()
	if err != nil {
		fmt.Println(err)
		return 0
	}
	for _, u := range units {
		readings, err := u.Sample(nil)
		for i := range readings {
			fmt.Println(line(&readings[i]))
		}
		if err != nil {
			fmt.Println(word(err))
		}
	}
	if err := h.Close(); err != nil {
		fmt.Println(err)
	}
	return 0
}

func inChild(t *testing.T, library string, s *nvmltest.Script) string {
	t.Helper()
	return inProgram(t, os.Args[0], library, s)
}

// inProgram is inChild with another build of this binary and more in its environment.
func inProgram(t *testing.T, program, library string, s *nvmltest.Script, env ...string) string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childLibrary+"="+library, nvmltest.EnvScript+"="+s.Path(), nvmltest.EnvNews+"="+s.News())
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the process died: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// why is the gap that an error of Open leaves.
func why(err error) string {
	var n *collector.NoAnswer
	if !errors.As(err, &n) {
		return "unnamed"
	}
	return usage.GapReason(n.Reason).String()
}

// TestSessionThatDoesNotBegin: a container without devices, one that lost them, a user who may not, and a driver after an upgrade
// are gaps of four kinds, and each may be over when it is tried again.
func TestSessionThatDoesNotBegin(t *testing.T) {
	for code, want := range map[int]string{9: "not_available", 4: "permission", 18: "error", 999: "error", 10: "timeout"} {
		s := nvmltest.Start(t)
		s.Node().Fail("nvmlInit_v2", code)
		s.Play(t)
		if _, err := Open(options(t)); why(err) != want || !errors.Is(err, collector.ErrSession) {
			t.Errorf("code %d: %s: %v", code, why(err), err)
		}
	}
}

// TestLibrariesThatLackCalls: a call to a symbol that is not there is not made: an older call takes its place, or what it is for is
// not supported.
func TestLibrariesThatLackCalls(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a").Set("memory_reserved", 500)
	s.Play(t)
	const lacks = "nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetFieldValues nvmlDeviceGetMigMode gpm"
	for _, c := range []struct{ lacks, want string }{
		{lacks, "GPU-a 40 1500 250000 7000 4"},
		{lacks + " nvmlDeviceGetTotalEnergyConsumption", "GPU-a 40 1500 250000 not_supported 4"},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			path, err := nvmltest.Compile(t.TempDir(), strings.Fields(c.lacks)...)
			nvmltest.Need(t, err)
			if got := inChild(t, path, s); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestNoLibrary: one that is not there may come later, one that is no NVML never is.
func TestNoLibrary(t *testing.T) {
	s := nvmltest.Start(t)
	s.Play(t)
	missing := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if got := inChild(t, missing, s); !strings.HasPrefix(got, "again: true not_available") || !strings.Contains(got, "install the NVIDIA driver") {
		t.Error(got)
	}
	if got := inChild(t, "libc.so.6", s); !strings.HasPrefix(got, "again: false") || !strings.Contains(got, "nvmlInit_v2 or nvmlInit") {
		t.Error(got)
	}
}
