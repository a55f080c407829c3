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
		"good.csv": recorded.Header + "\n0,GPU-0,40,,,\n", "text.pem": "hello\n", "file": "",
		"smi.csv":      "timestamp, uuid, utilization.gpu [%]\n2026/05/01 12:00:00.123, GPU-0, 35 %\n2026/05/01 12:00:01.123, GPU-0\n",
		"columns.csv":  "timestamp, utilization.gpu [%]\n2026/05/01 12:00:00.123, 35 %\n",
		"node.pem.pub": "",
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
	const log, page = "--nats-url=nats://127.0.0.1:1", "--endpoint=127.0.0.1:1" // a page, so that a build without NVML says the same
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
		[]string{"collector", page}, []string{"collector", page, "--data", "none"}, []string{"collector", page, log, "--node", ""}, []string{"collector", page, log, "--node", long},
		[]string{"collector", page, log, "--node", "a\nb"}, []string{"collector", page, log, "--node", "a\xff"},
		[]string{"collector", page, log, "--spool-limit", "0"}, []string{"collector", page, log, "--spool-limit", "1GiB"}, []string{"collector", page, log, "--spool-limit", "9999999"},
		[]string{"collector", page, log, "--key", "none.pem"}, []string{"collector", page, log, "--key", "open.pem"}, []string{"collector", page, log, "--key", "text.pem"},
		[]string{"collector", page, log, "--spool", "file"}, []string{"collector", page, log, "--spool", "file/spool"},
		[]string{"collector", page, log, "--spool", "locked"}, []string{"collector", page, log, "--spool", "newer"}, []string{"collector", page, log, "--log-level", "loud"},
		[]string{"collector", "record", page}, []string{"collector", "record", page, "--out", "there.csv"}, []string{"collector", "record", page, "--out", "none/r.csv"},
		[]string{"collector", "record", page, "--out", "r.csv", "--for", "-1s"}, []string{"collector", "record", page, "--out", "r.csv", "--for", "1500ms"},
		[]string{"collector", "record", "--out", "r.csv", "--vendor", "amd"},
		[]string{"collector", "replay", "none.csv", log}, []string{"collector", "replay", "broken.csv", log}, []string{"collector", "replay", "there.csv", log},
		[]string{"collector", "replay", "header.csv", log}, []string{"collector", "replay", "text.csv", log}, []string{"collector", "replay", "good.csv"},
		[]string{"collector", "replay", "smi.csv"}, []string{"collector", "replay", "columns.csv", log},
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

// TestNamesThatAreNone: a container's name changes with it, and a machine that calls itself localhost is one of many.
func TestNamesThatAreNone(t *testing.T) {
	for host, want := range map[string]bool{
		"3f1e0c526a1b": true, "localhost": true, "localhost.localdomain": true,
		"gpu-07": false, "3f1e0c526a1": false, "3f1e0c526a1g": false, "": false, "vm": false,
	} {
		if got := passing(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
