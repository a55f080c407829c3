package exporter

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func show(m collector.Metric) string {
	if m.Read() {
		return fmt.Sprint(m.Value)
	}
	return "?" + usage.GapReason(m.Reason).String()
}

// shown is a page as a person reads it: readings, devices, and every line that was not used.
func shown(text string) string {
	p := allMappings().read(text, "")
	var b strings.Builder
	fmt.Fprintf(&b, "vendor %s, driver %q, torn %t\n", p.vendor, p.driver, p.torn)
	for _, name := range p.names() {
		d := p.devices[name]
		r := (&state{}).reading(d, p.counters, false)
		fmt.Fprintf(&b, "\n%s\n  busy %s memory %s power %s energy %s throttle %s\n", name, show(r.Busy), show(r.Memory), show(r.Power), show(r.Energy), show(r.Throttle))
		about := d.describe()
		fmt.Fprintf(&b, "  parent %q vendor %q model %q serial %q pci %q profile %q bytes %d\n",
			about.Parent, about.Vendor, about.Model, about.Serial, about.PCI, about.Profile, about.MemoryBytes)
		for _, k := range slices.SortedFunc(maps.Keys(d.counts), func(a, b count) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			fmt.Fprintf(&b, "  %s %d: %v\n", k.series, k.code, d.counts[k])
		}
	}
	b.WriteString("\nlines that are not used\n")
	for _, bad := range p.bad {
		fmt.Fprintf(&b, "  %s\n", bad)
	}
	return b.String()
}

// TestFixtures: what each page says, and each line of it that is not used, by number and reason.
func TestFixtures(t *testing.T) {
	pages, err := filepath.Glob("testdata/*.prom")
	if err != nil || len(pages) < 9 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, path := range pages {
		name := filepath.Base(path)
		golden := strings.TrimSuffix(path, ".prom") + ".golden"
		got := shown(fixture(t, name))
		if os.Getenv("GOLDEN") == "rewrite" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(fixture(t, filepath.Base(golden)), got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestEveryLineIsASampleOrReported counts them: nothing is dropped between.
func TestEveryLineIsASampleOrReported(t *testing.T) {
	want := map[string][]string{ // all lines of the pages from elsewhere that are not used
		"dcgm-datadog.prom": {"line 70: the page ends inside this line"}, "amd-mini.prom": nil, "ascend-docs.prom": {"line 21: it begins with no name of a series: ..."},
	}
	pages, _ := filepath.Glob("testdata/*.prom")
	for _, path := range pages {
		name := filepath.Base(path)
		text := fixture(t, name)
		lines := 0
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines++
			}
		}
		p := Parse(text)
		if len(p.Samples)+len(p.Bad) != lines {
			t.Errorf("%s: %d samples and %d bad lines of %d", name, len(p.Samples), len(p.Bad), lines)
		}
		bad, ours := want[name]
		if !ours {
			continue
		}
		for i, b := range p.Bad {
			if i >= len(bad) || !strings.HasPrefix(b.String(), bad[i]) {
				t.Errorf("%s: %s", name, b)
			}
		}
		if len(p.Bad) != len(bad) {
			t.Errorf("%s: %d bad lines, want %d", name, len(p.Bad), len(bad))
		}
	}
}

func TestLines(t *testing.T) {
	for line, want := range map[string]Sample{
		`a 1`:                      {Name: "a", Value: 1},
		`a{} 1 5`:                  {Name: "a", Value: 1, At: 5},
		`a:b{x="1",y=""}-2.5e3`:    {Name: "a:b", Labels: []Label{{"x", "1"}, {"y", ""}}, Value: -2500},
		`a{x="q\"\\\n}"} +Inf`:     {Name: "a", Labels: []Label{{"x", "q\"\\\n}"}}, Value: inf()},
		`a{x="1",} N/A`:            {Name: "a", Labels: []Label{{"x", "1"}}, Blank: true},
		`a{x="1"}`:                 {Name: "a", Labels: []Label{{"x", "1"}}, Blank: true},
		"a\t{ x = \"1\" }\t7\t12":  {Name: "a", Labels: []Label{{"x", "1"}}, Value: 7, At: 12},
		`a 9223372036854775794`:    {Name: "a", Value: 0x1p63},
		`a{x="超"} 1 1723621883587`: {Name: "a", Labels: []Label{{"x", "超"}}, Value: 1, At: 1723621883587},
	} {
		got := Parse(line + "\n")
		want.Line = 1
		if len(got.Bad) > 0 || len(got.Samples) != 1 {
			t.Errorf("%s: %v", line, got.Bad)
		} else if d := cmp.Diff(want, got.Samples[0]); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
	for line, want := range map[string]string{
		"a{x=\"\xff\"} 1": "not valid UTF-8", `a{1="x"} 1`: "no name", `a{x} 1`: "no value", `a{x="1"y="2"} 1`: "neither , nor }",
		`a{x="1} 2`: "no closing", `a 1 -5`: "time", `a 1_0`: "no number", `a"x" 1`: "neither { nor", `a{x="\t"} 1`: "escape", `é 1`: "no name",
	} {
		got := Parse(line + "\n")
		if len(got.Samples) > 0 || len(got.Bad) != 1 || !strings.Contains(got.Bad[0].String(), want) {
			t.Errorf("%q: %+v; want %q", line, got, want)
		}
	}
}

func inf() float64 { v := 1e308; return v * 10 }

// TestNames: what a device is called, by the labels that versions of exporters have.
func TestNames(t *testing.T) {
	for line, want := range map[string]string{
		`DCGM_FI_DEV_FB_USED{UUID="GPU-1"}`:                                                      "GPU-1",
		`DCGM_FI_DEV_FB_USED{uuid="GPU-1"}`:                                                      "GPU-1",
		`DCGM_FI_DEV_FB_USED{gpu_uuid="GPU-1",GPU_I_ID=""}`:                                      "GPU-1",
		`DCGM_FI_DEV_FB_USED{UUID="GPU-1",GPU_I_ID="7",GPU_I_PROFILE="1g.5gb"}`:                  "GPU-1/7",
		`DCGM_FI_DEV_FB_USED{UUID="MIG-1",GPU_I_ID="7"}`:                                         "MIG-1",
		`gpu_used_vram{gpu_id="0",serial_number="S",gpu_partition_id="NA"}`:                      "S",
		`gpu_used_vram{gpu_id="0",serial_number="S",gpu_partition_id="0"}`:                       "S",
		`gpu_used_vram{serial_number="S",gpu_partition_id="3",gpu_compute_partition_type="cpx"}`: "S/3",
		`GPU_USED_VRAM{GPU_UUID="U",SERIAL_NUMBER="S"}`:                                          "U",
		`amd_gpu_used_vram{gpu_uuid="U",serial_number="S",gpu_partition_id="3"}`:                 "U",
		`npu_chip_info_utilization{id="0",vdie_id="V"}`:                                          "V",
	} {
		p := allMappings().read(line+" 1\n", "")
		if got := p.names(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s; %v", line, got, want, p.bad)
		}
	}
	for text, want := range map[string]Vendor{"": "", "NVIDIA": NVIDIA, "amd": AMD, "ascend": Ascend} {
		if got, err := ParseVendor(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseVendor("intel"); err == nil {
		t.Error("intel is no vendor yet")
	}
}

// BenchmarkPage is what a second of eight GPUs costs: the page of dcgm-exporter's default list, taken apart and put together.
func BenchmarkPage(b *testing.B) {
	one := strings.Join(strings.Split(fixture(b, "dcgm-datadog.prom"), "\n")[:51], "\n") + "\n"
	var text strings.Builder
	for gpu := range 8 {
		text.WriteString(strings.ReplaceAll(one, "GPU-20c56d28", fmt.Sprintf("GPU-20c56d2%d", gpu)))
	}
	page, ms := text.String(), allMappings()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if p := ms.read(page, ""); len(p.devices) != 8 || len(p.bad) > 0 {
			b.Fatal(len(p.devices), p.bad)
		}
	}
}

// FuzzParse: no page panics, each line is a sample or reported, what is read is in range, and one good line more is read as it
// is, whatever stands before it.
func FuzzParse(f *testing.F) {
	for _, page := range []string{ // short ones: the fuzzer shortens what it finds, and pages of kilobytes take it minutes
		"DCGM_FI_DEV_GPU_UTIL{UUID=\"a\"} 7\nDCGM_FI_DEV_FB_USED{uuid=\"a\"} 1e3\n# x\n",
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"a\",GPU_I_ID=\"1\"} 9223372036854775794 5\n",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=\"a\",GPU_I_ID=\"1\"} 0.5\n",
		"DCGM_EXP_XID_ERRORS_COUNT{UUID=\"a\",xid=\"79\"} 1\nDCGM_FI_DEV_XID_ERRORS{UUID=\"a\"} N/A\n",
		"gpu_gfx_busy_instantaneous{gpu_uuid=\"u\",gpu_partition_id=\"1\",xcc_index=\"0\"} 65535\ngpu_used_vram{gpu_uuid=\"u\",gpu_partition_id=\"0\"} 1\n",
		"npu_chip_info_error_code_1{id=\"0\",vdie_id=\"v\"} 2162263041 1\nvnpu_pod_used_memory{id=\"0\",v_dev_id=\"2\"} 4\n",
		"a{b=\"\\\"\\\\\\n\",} -Inf 1\n{}\n a 0x1\n",
	} {
		f.Add(page)
	}
	ms := allMappings()
	f.Fuzz(func(t *testing.T, text string) {
		p := ms.read(text+"\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-last-of-all\"} 7\n", NVIDIA)
		last, ok := p.devices["GPU-last-of-all"]
		if !ok && len(p.devices) < usage.MaxBlocks || p.torn {
			t.Fatalf("the last line is lost; torn %t", p.torn)
		}
		if ok && strings.Count(text, "GPU-last-of-all") == 0 && show((&state{}).reading(last, p.counters, false).Busy) != "7" {
			t.Fatal("the last line reads otherwise")
		}
		for _, v := range []Vendor{NVIDIA, AMD, Ascend, ""} {
			p := ms.read(text, v)
			for _, name := range p.names() {
				s := &state{}
				for range 2 {
					r := s.reading(p.devices[name], p.counters, false)
					for _, m := range []collector.Metric{r.Busy, r.Memory, r.Power, r.Energy, r.Throttle} {
						if m.Read() && m.Value < 0 || m.Read() && m.Reason != 0 {
							t.Fatalf("%s: %+v", name, r)
						}
					}
					if len(r.Faults) > 0 {
						t.Fatalf("%s: the same page twice has faults %v", name, r.Faults)
					}
				}
				topology := usage.Topology{Devices: []usage.Device{p.devices[name].describe()}}
				b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1, Topology: &topology}
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
