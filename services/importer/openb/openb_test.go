package openb

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

func demo(t *testing.T) (*Trace, *Import) {
	t.Helper()
	trace, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	im, err := trace.Import(DemoStart)
	if err != nil {
		t.Fatal(err)
	}
	return trace, im
}

// count sums what the facts say, exactly, in the words of the independent count.
func count(t *testing.T, im *Import) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	open := map[string]*fact.LeaseStarted{}
	for _, f := range im.Facts {
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			open[b.Lease] = b
		case *fact.LeaseStopped:
			started := open[b.Lease]
			delete(open, b.Lease)
			milli := started.Count * started.ShareMilli
			for _, d := range started.Devices {
				milli += d.ShareMilli
			}
			seconds := int64(b.At - started.At)
			sums["leases"]++
			sums["total"] += seconds * milli
			sums[started.Customer] += seconds * milli
			if b.By == fact.ByCustomer {
				sums["topup"] += max(0, 60-seconds) * milli
			}
		}
	}
	if len(open) > 0 {
		t.Fatalf("%d leases never stop", len(open))
	}
	return sums
}

// independent runs the few lines beside this test; a machine with neither awk nor Python fails.
func independent(t *testing.T) map[string]int64 {
	t.Helper()
	out, err := exec.Command("awk", "-f", "independent.awk", PodFile).Output()
	if err != nil {
		t.Logf("awk: %v; counting with Python", err)
		if out, err = exec.Command("python3", "independent.py", PodFile).Output(); err != nil {
			t.Fatalf("neither awk nor python3 counts the trace: %v", err)
		}
	}
	sums := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		var name string
		var v int64
		if _, err := fmt.Sscan(line, &name, &v); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if customer, ok := customers[name]; ok {
			name = customer
		}
		sums[name] = v
	}
	return sums
}

func TestTheFactsHoldWhatAnIndependentCountFinds(t *testing.T) {
	_, im := demo(t)
	got := count(t, im)
	if d := cmp.Diff(independent(t), got); d != "" {
		t.Fatal(d)
	}
	known := map[string]int64{ // GPU-hours at nine digits: 51,470.674158333 and so on, x 3,600,000
		"leases": 6203, "topup": 8405080, "total": 185294426970, "openb-be": 4721888880, "openb-burstable": 26853122000,
		"openb-guaranteed": 4631320000, "openb-ls": 149088096090,
	}
	if d := cmp.Diff(known, got); d != "" {
		t.Fatal(d)
	}
}

func TestCountsOfTheTrace(t *testing.T) {
	trace, im := demo(t)
	gpus := int64(0)
	for _, n := range trace.Nodes {
		gpus += n.GPUs
	}
	got := []int{len(trace.Nodes), int(gpus), len(trace.Pods), im.Leases, im.NoGPU, im.NeverScheduled, len(im.Facts), im.Unplaced}
	if d := cmp.Diff([]int{1523, 6212, 8152, 6203, 1088, 861, 2 * 6203, 0}, got); d != "" {
		t.Fatal(d)
	}
}

// TestNoDeviceIsSoldTwice walks the facts in their order and keeps account of every device.
func TestNoDeviceIsSoldTwice(t *testing.T) {
	_, im := demo(t)
	held := map[string]int64{}
	leases := map[string]*fact.LeaseStarted{}
	last := span.Second(0)
	keys := map[string]bool{}
	for _, f := range im.Facts {
		var at span.Second
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			at, leases[b.Lease] = b.At, b
			for _, d := range b.Devices {
				held[d.Device] += d.ShareMilli
				if held[d.Device] > fact.WholeShareMilli {
					t.Fatalf("%s: %s holds %d milli", b.Lease, d.Device, held[d.Device])
				}
			}
		case *fact.LeaseStopped:
			at = b.At
			for _, d := range leases[b.Lease].Devices {
				held[d.Device] -= d.ShareMilli
			}
		}
		if at < last || keys[f.Key] {
			t.Fatalf("fact %s at %s follows %s", f.Key, at, last)
		}
		last, keys[f.Key] = at, true
	}
}

func TestImportIsTheSameEveryTime(t *testing.T) {
	_, a := demo(t)
	_, b := demo(t)
	if d := cmp.Diff(a, b); d != "" {
		t.Fatal(d)
	}
}

const (
	nodeHead = "sn,cpu_milli,memory_mib,gpu,model\n"
	podHead  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)

func read(nodes, pods string) (*Trace, error) {
	return Read(File{"n.csv", strings.NewReader(nodes)}, File{"p.csv", strings.NewReader(pods)})
}

func TestPlacement(t *testing.T) {
	trace, err := read(nodeHead+"cpu,1,1,0,\nn0,1,1,2,\nn1,1,1,2,\n", podHead+
		"half,1,1,1,500,,LS,Running,0,100,0\n"+
		"two,1,1,2,1000,,LS,Running,0,100,0\n"+
		"rest,1,1,1,400,,LS,Running,0,100,0\n"+
		"big,1,1,4,1000,,LS,Failed,0,100,0\n"+
		"nothing,1,1,1,1000,,BE,Succeeded,0,50,50\n"+
		"next,1,1,2,1000,,LS,Running,0,200,100\n"+ // the stops at 100 come first
		"later,1,1,1,1000,,LS,Pending,0,100,\n"+
		"cpu,1,1,0,0,,LS,Running,0,100,0\n")
	if err != nil {
		t.Fatal(err)
	}
	im, err := trace.Import(1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range im.Facts {
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			line := fmt.Sprintf("%d %s start", b.At, b.Lease)
			for _, d := range b.Devices {
				line += fmt.Sprintf(" %s:%d", d.Device, d.ShareMilli)
			}
			if b.Count > 0 {
				line += fmt.Sprintf(" unplaced %dx%d", b.Count, b.ShareMilli)
			}
			got = append(got, line)
		case *fact.LeaseStopped:
			got = append(got, fmt.Sprintf("%d %s stop by %s", b.At, b.Lease, b.By))
		}
	}
	want := []string{
		"1000 half start n0/gpu-0:500", "1000 two start n1/gpu-0:1000 n1/gpu-1:1000", "1000 rest start n0/gpu-0:400",
		"1000 big start unplaced 4x1000", "1050 nothing start n0/gpu-1:1000", "1050 nothing stop by customer",
		"1100 half stop by customer", "1100 two stop by customer", "1100 rest stop by customer", "1100 big stop by customer",
		"1100 next start n0/gpu-0:1000 n0/gpu-1:1000", "1200 next stop by customer",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff([]int{6, 1, 1, 1}, []int{im.Leases, im.Unplaced, im.NoGPU, im.NeverScheduled}); d != "" {
		t.Fatal(d)
	}
}

func TestBadFiles(t *testing.T) {
	nodes := nodeHead + "n0,1,1,2,\n"
	pod := "p,1,1,1,500,,LS,Running,0,100,0\n"
	cases := []struct{ name, nodes, pods, want string }{
		{"empty", "", podHead, "n.csv:1: the file is empty"},
		{"header", "sn,gpu\n", podHead, `n.csv:1: the header is "sn,gpu"; expected "sn,cpu_milli`},
		{"column", nodes, podHead + pod + "q,1,1,1\n", "p.csv:3: wrong number of fields"},
		{"number", nodes, podHead + "p,1,1,one,500,,LS,Running,0,100,0\n", `p.csv:2: num_gpu "one" is no whole number from 0 to 1024`},
		{"negative", nodes, podHead + "p,1,1,-1,500,,LS,Running,0,100,0\n", `num_gpu "-1"`},
		{"share", nodes, podHead + "p,1,1,1,1001,,LS,Running,0,100,0\n", `gpu_milli "1001" is no whole number from 1 to 1000`},
		{"giant", nodes, podHead + "p,1,1,1,500,,LS,Running,0,99999999999999999999,0\n", `deletion_time "99999999999999999999"`},
		{"qos", nodes, podHead + pod + "q,1,1,1,500,,Gold,Running,0,100,0\n", `p.csv:3: qos "Gold" is none of LS`},
		{"phase", nodes, podHead + "p,1,1,1,500,,LS,Gone,0,100,0\n", `pod_phase "Gone"`},
		{"twice", nodes, podHead + pod + pod, `p.csv:3: name "p" is there twice`},
		{"nameless", nodes + ",1,1,1,\n", podHead, `n.csv:3: sn "" is empty`},
		{"order", nodes, podHead + "p,1,1,1,500,,LS,Running,0,100,101\n", `deletion_time "100" lies before scheduled_time 101`},
		{"quote", nodes, podHead + "\"p,1,1,1,500,,LS,Running,0,100,101\n", `p.csv:2: `},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := read(c.nodes, c.pods); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestCustomers(t *testing.T) {
	if d := cmp.Diff([]string{"openb-be", "openb-burstable", "openb-guaranteed", "openb-ls"}, Customers()); d != "" {
		t.Fatal(d)
	}
}
