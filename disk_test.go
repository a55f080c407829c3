package gpuhour_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// inMounts makes this test binary a process with mounts of its own, for the test it names.
const inMounts = "GPUHOUR_TEST_MOUNTS"

// onSmallDisk runs a test in a process of its own, which has a small disk that nobody else sees.
func onSmallDisk(t *testing.T, test func(t *testing.T, disk string)) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts ClickHouse; left out of -short")
	}
	embeddedConfig(t, t.TempDir()) // is there an engine at all?
	if os.Getenv(inMounts) == t.Name() {
		disk := t.TempDir()
		if err := mountSmall(disk, "64m"); err != nil {
			noMounts(t, err)
		}
		t.Cleanup(func() {
			if err := unmount(disk); err != nil {
				t.Error(err)
			}
		})
		test(t, disk)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), inMounts+"="+t.Name()), ownMounts()
	said, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		noMounts(t, err)
	case err != nil:
		t.Fatalf("%v\n%s", err, said)
	case strings.Contains(string(said), "--- SKIP"):
		if os.Getenv("REQUIRE_STACK") == "1" {
			t.Fatalf("REQUIRE_STACK=1 and the test was left out: %s", said)
		}
		t.Skipf("%s", said)
	default:
		t.Logf("%s", said)
	}
}

func noMounts(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_STACK") == "1" {
		t.Fatalf("REQUIRE_STACK=1 and a process cannot have a disk of its own here: %v", err)
	}
	t.Skipf("NOT TESTED: a process cannot have a disk of its own here: %v", err)
}

// fill writes a file until nothing more fits, and empties it by removing it.
func fill(t *testing.T, disk string) (empty func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk ended with %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() { must(t, os.Remove(name)) }
}

// zeros is a file without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// refused holds an error to what a person has to read in it.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Fatalf("error %v; want one that says %q", err, word)
		}
	}
}

// TestDiskFull fills the disk under log and tables twice while the road runs. What cannot be written is refused, and the
// refusal names the disk. Where only tables and batches were refused the same process goes on once there is room; where the
// server of the log met a write that failed it says that it must start again, and does not leave publications waiting.
func TestDiskFull(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "data")
		e := open(t, embeddedConfig(t, dir), quiet())
		w := small()
		want, began := w.replayed(t), time.Now()
		errStop := errors.New("stopped")
		playTo := func(stop span.Second) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			err := w.play(ctx, e, w.direct(e.Bus()), func(at span.Second) {
				if at == stop {
					cancel(errStop)
				}
			})
			if context.Cause(ctx) == errStop { //nolint:errorlint // it is that one
				return nil
			}
			return err
		}
		must(t, playTo(instant("2026-03-01T07:30:00Z")))
		empty := fill(t, disk)
		again := w.direct(e.Bus()) // everything that was sampled: it counts once
		for range 3 {
			err := again(t.Context(), 0, w.until)
			refused(t, err, "the disk of "+dir+"/nats has ", "make room", bus.ErrFull.Error())
			refused(t, playTo(span.Open), "NOT_ENOUGH_SPACE", "make room on the disk of "+dir+"/clickhouse")
		}
		empty()
		must(t, playTo(instant("2026-03-01T08:30:00Z")))

		empty = fill(t, disk)
		acknowledged := publishUntilRefused(t, e.Bus(), w, "critical write error", "no space left on device", "started again", "make room")
		stopped := time.Now()
		for range 10 { // and go on refusing, at once, with room or without
			refused(t, e.Tick(t.Context(), w.until), "the log takes nothing more until this process is started again")
			refused(t, again(t.Context(), 0, w.until), "the log takes nothing more until this process is started again")
		}
		if waited := time.Since(stopped); waited > 5*time.Second {
			t.Errorf("20 publications waited for %v", waited)
		}
		refused(t, e.Serve(t.Context(), gpuhour.ServiceAlerter), "the log takes nothing more until this process is started again")
		closed(t, e)
		_, err := gpuhour.Open(t.Context(), embeddedConfig(t, dir), quiet())
		refused(t, err, "start NATS in "+dir+"/nats: its disk has ", "make room")
		empty()
		e = open(t, embeddedConfig(t, dir), quiet())
		if last, err := e.Bus().LastSeq(t.Context(), bus.Usage); err != nil || last < acknowledged {
			t.Fatalf("the log ends at %d, %v; %d was acknowledged", last, err, acknowledged)
		}
		must(t, playTo(span.Open))
		compareKilled(t, e, w, want)
		closed(t, e)
		t.Logf("%d documents in %v", len(want.Documents), time.Since(began).Round(time.Millisecond))
	})
}

// publishUntilRefused repeats one message until the log refuses it, and returns the last position that it gave.
func publishUntilRefused(t *testing.T, b bus.Bus, w *world, words ...string) (acknowledged uint64) {
	t.Helper()
	p, err := codec.EncodeBatch(&w.batches[0].Batch)
	must(t, err)
	for range 10_000 {
		seq, err := b.Publish(t.Context(), p)
		if err != nil {
			refused(t, err, words...)
			return acknowledged
		}
		acknowledged = seq
	}
	t.Fatal("a full disk took 10000 messages")
	return 0
}

// TestReadOnlyDisk: nothing opens on a disk that cannot be written, each says which directory and what to do, nothing on it
// changes, and it goes on when the disk can be written again.
func TestReadOnlyDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "data")
		cfg := embeddedConfig(t, dir)
		w := small()
		e := open(t, cfg, quiet())
		must(t, w.play(t.Context(), e, w.direct(e.Bus()), nowhere))
		closed(t, e)
		before := tree(t, disk)
		must(t, remount(disk, true))
		const remedy = "read-only file system: make it writable for this user, or choose another data directory"
		_, err := gpuhour.Open(t.Context(), cfg, quiet())
		refused(t, err, dir, remedy)
		_, err = gpuhour.Attach(t.Context(), cfg, quiet())
		refused(t, err, dir, remedy)
		fresh := cfg
		fresh.Data = filepath.Join(disk, "fresh")
		_, err = gpuhour.Open(t.Context(), fresh, quiet())
		refused(t, err, fresh.Data, remedy)
		for _, name := range []string{dir, fresh.Data} { // tables by address, the log here
			_, err = natsbus.Start(t.Context(), natsbus.Options{Dir: filepath.Join(name, "nats")})
			refused(t, err, name, remedy)
		}
		must(t, remount(disk, false))
		if d := gocmp.Diff(before, tree(t, disk)); d != "" {
			t.Fatalf("files changed (-before +after)\n%s", d)
		}
		e = open(t, cfg, quiet())
		compareKilled(t, e, w, w.replayed(t))
		closed(t, e)
	})
}

// tree is the size and the time of every file.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			files[path] = fmt.Sprint(info.Size(), info.Mode(), info.ModTime())
		}
		return err
	}))
	return files
}
