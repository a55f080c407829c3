//go:build linux && cgo

package live_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// kernelTick is the unit of processor time in /proc, the same on all machines that Go runs on.
const kernelTick = time.Second / 100

// processCPU is what all threads of a process took so far, those too that are gone, the collector of garbage and C's.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	_, rest, ok := strings.Cut(processFile(b, pid, "stat"), ") ") // a command's name may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		b.Fatalf("/proc/%d/stat says %q", pid, rest)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * kernelTick
}

// processMemory are the sizes in /proc/PID/status, in bytes. VmHWM is the most that was in memory at once, code of mapped files included.
func processMemory(b *testing.B, pid int) map[string]int64 {
	b.Helper()
	all := map[string]int64{}
	for line := range strings.Lines(processFile(b, pid, "status")) {
		name, value, _ := strings.Cut(line, ":")
		if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err == nil && strings.HasSuffix(strings.TrimSpace(value), " kB") {
			all[name] = kib << 10
		}
	}
	if all["VmHWM"] == 0 {
		b.Fatalf("/proc/%d/status tells no peak", pid)
	}
	return all
}

func processFile(b *testing.B, pid int, name string) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// figures reads a page of metrics in Prometheus's text format, without time stamps.
func figures(page string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[series] = v
		}
	}
	return all
}

func folderBytes(b *testing.B, path string) (sum int64) {
	b.Helper()
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// freeAddress is a port that nobody has at this moment.
func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// machine says where a figure is from.
func machine() string {
	model := "a processor without a name" // other machines than PCs name none there
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%s, %d cores, load %s, %s", model, runtime.NumCPU(), strings.TrimSpace(string(load)), runtime.Version())
}
