package main

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

func TestMain(m *testing.M) { os.Exit(nvmltest.Main(m)) }

// futureSegment is a spool's segment with a record of a kind that this version does not know.
func futureSegment() string {
	payload := []byte{99, 'x'}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return string(append(head, payload...))
}

// TestWrongCallsOfTheCollector: each says in one line what is wrong and what to do, and none of them samples or sends anything.
func TestWrongCallsOfTheCollector(t *testing.T) {
	moved(t, map[string]string{
		"there.csv": "", "broken.csv": recorded.Header + "\n0,GPU-0,x,,,\n", "header.csv": recorded.Header + "\n", "text.csv": "hello\n",
		"good.csv": recorded.Header + "\n0,GPU-0,40,,,\n", "text.pem": "hello\n", "file": "", "node.pem.pub": "",
	})
	key, err := nodekey.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		key.Write("open.pem"), os.Chmod("open.pem", 0o644), os.Mkdir("newer", 0o700), os.Mkdir("data", 0o700), os.Mkdir("strange", 0o700),
		os.WriteFile(filepath.Join("newer", "00000001.spool"), []byte(futureSegment()), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	locked, err := spool.Dir("locked")
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	const log = "--nats-url=nats://127.0.0.1:1"
	long := strings.Repeat("n", 257)
	calls(
		t, "collector-calls.golden",
		[]string{"collector", "now"}, []string{"collector", "--trace", "x.csv"}, []string{"collector", "replay"}, []string{"collector", "reply"},
		[]string{"collector", "--vendor", "nvidia"}, []string{"collector", "--endpoint", "127.0.0.1:9400", "--vendor", "intel"},
		[]string{"collector", "--endpoint", "ftp://n:1/metrics"}, []string{"collector", "--endpoint", "http://"}, []string{"collector", "--endpoint", ""},
		[]string{"collector", "--endpoint", "127.0.0.1:9400,http://127.0.0.1:9400/metrics"},
		[]string{"collector", "--endpoint", "127.0.0.1:9400", "--nvml-library", "x.so"},
		[]string{"collector", "--nvidia-smi", "--endpoint", "127.0.0.1:9400"}, []string{"collector", "--nvidia-smi", "--nvml-library", "x.so"},
		[]string{"collector", "--endpoint", "ftp://meter:secret@n:1/metrics"},
		[]string{"collector"}, []string{"collector", "--data", "none"}, []string{"collector", log, "--node", ""}, []string{"collector", log, "--node", long},
		[]string{"collector", log, "--node", "a\nb"}, []string{"collector", log, "--node", "a\xff"},
		[]string{"collector", log, "--spool-limit", "0"}, []string{"collector", log, "--spool-limit", "1GiB"}, []string{"collector", log, "--spool-limit", "9999999"},
		[]string{"collector", log, "--key", "none.pem"}, []string{"collector", log, "--key", "open.pem"}, []string{"collector", log, "--key", "text.pem"},
		[]string{"collector", log, "--spool", "file"}, []string{"collector", log, "--spool", "file/spool"},
		[]string{"collector", log, "--spool", "locked"}, []string{"collector", log, "--spool", "newer"}, []string{"collector", log, "--log-level", "loud"},
		[]string{"collector", "record"}, []string{"collector", "record", "--out", "there.csv"}, []string{"collector", "record", "--out", "none/r.csv"},
		[]string{"collector", "record", "--out", "r.csv", "--for", "-1s"}, []string{"collector", "record", "--out", "r.csv", "--for", "1500ms"},
		[]string{"collector", "record", "--out", "r.csv", "--vendor", "amd"},
		[]string{"collector", "replay", "none.csv", log}, []string{"collector", "replay", "broken.csv", log}, []string{"collector", "replay", "there.csv", log},
		[]string{"collector", "replay", "header.csv", log}, []string{"collector", "replay", "text.csv", log}, []string{"collector", "replay", "good.csv"},
		[]string{"collector", "replay", "good.csv", log, "--node", ""},
	)
	for _, name := range []string{"gpuhour-data", "none", "r.csv"} {
		if exists(name) {
			t.Errorf("a wrong call left %s behind", name)
		}
	}
}

// TestFolderOfANode: whatever a node is called, it has one folder of its own below spool/, and usual names read as they are.
func TestFolderOfANode(t *testing.T) {
	seen := map[string]string{}
	for node, want := range map[string]string{
		"gpu-07": "gpu-07", "gpu-07.rack4.example.com": "gpu-07.rack4.example.com", "rack/4": "rack%2F4", "..": "%2E.", ".": "%2E", "%2E": "%252E",
		"../../etc": "%2E.%2F..%2Fetc", `a\b`: "a%5Cb", "节点": "%E8%8A%82%E7%82%B9",
		strings.Repeat("n", 256): "=h", strings.Repeat("n", 255) + "/": "=h",
	} {
		got := folder(node)
		if got != want && (want != "=h" || !strings.HasPrefix(got, want)) || len(got) > 255 || filepath.Dir(filepath.Join("spool", got)) != "spool" {
			t.Errorf("%q has the folder %q, want %q", node, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q share the folder %q", node, other, got)
		}
		seen[got] = node
	}
}
