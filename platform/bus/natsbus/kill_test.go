package natsbus

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// killDir makes this test binary a publisher that is going to be killed.
const killDir = "GPUHOUR_TEST_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		fmt.Fprintln(os.Stderr, publishForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// publishForEver prints the last sequence after each acknowledgement.
func publishForEver(dir string) error {
	ctx := context.Background()
	e, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		return err
	}
	defer e.Close()
	for last := uint64(0); ; {
		ps := batchOf(int(last%50) + 2)
		if last, err = e.PublishBatch(ctx, ps); err != nil {
			return err
		}
		fmt.Println(last)
		if last, err = e.Publish(ctx, tick0()); err != nil {
			return err
		}
		fmt.Println(last)
	}
}

func tick0() bus.Publication { return bus.Publication{Subject: bus.Tick} }

// TestKilled loses its publisher without warning: what was acknowledged is there, the batch under way
// is there or is not, and the directory is free. (Losing the power is what SyncAlways is for.)
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	acknowledged := uint64(0)
	for n := 0; lines.Scan(); n++ {
		if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
			t.Fatal(err)
		}
		if n == 30 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || acknowledged == 0 {
		t.Fatalf("the publisher ended with %v at %d; want it killed", err, acknowledged)
	}
	e := start(t, Options{Dir: dir})
	last, err := e.LastSeq(t.Context(), bus.Usage)
	if err != nil || last < acknowledged {
		t.Fatalf("the log ends at %d, %v; %d was acknowledged", last, err, acknowledged)
	}
	messages, err := e.Read(t.Context(), bus.Usage, 0, int(last)+1)
	if err != nil || uint64(len(messages)) != last {
		t.Fatalf("%d messages, %v; want %d", len(messages), err, last)
	}
	// Each batch has a size that follows from where it begins, and a tick after it.
	for at := uint64(0); at < last; {
		size := at%50 + 2
		if at+size > last {
			t.Fatalf("the last batch has %d of its %d messages", last-at, size)
		}
		if at += size; at < last {
			if m := messages[at]; m.Subject != bus.Tick {
				t.Fatalf("message %d is %s; want the tick after a batch", m.Seq, m.Subject)
			}
			at++
		}
	}
}
