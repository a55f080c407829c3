package exporter

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// still is a clock that stands where the fixtures' lines were written.
func still() *freshness {
	return &freshness{maxAge: 30 * time.Second, now: func() time.Time { return time.UnixMilli(1723621884000) }}
}

func show(m collector.Metric) string {
	if m.Read() {
		return fmt.Sprint(m.Value)
	}
	return "?" + usage.GapReason(m.Reason).String()
}

// asRead is a page as a person reads it: readings, devices, and every line that was not used.
func asRead(text string) string {
	p := allMappings().read(text, "")
	var b strings.Builder
	fmt.Fprintf(&b, "vendor %s, driver %q, torn %t\n", p.vendor, p.driver, p.torn)
	for _, name := range p.names() {
		d := p.devices[name]
		r := (&state{}).reading(d, p.counters, still(), false)
		fmt.Fprintf(&b, "\n%s\n  busy %s memory %s power %s energy %s throttle %s\n", name, show(r.Busy), show(r.Memory), show(r.Power), show(r.Energy), show(r.Throttle))
		about := d.describe(nil)
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
		got := asRead(fixture(t, name))
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
		`a{x="1} 2`: "no closing", `a 1 -5`: "time", `a 1_0`: "no number", `a 0x1p3`: "no number", `a"x" 1`: "neither { nor", `a{x="\t"} 1`: "escape", `é 1`: "no name",
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
		`DCGM_FI_DEV_FB_USED{UUID="GPU-1",GPU_I_ID="N/A"}`:                                       "GPU-1",
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
	if p := allMappings().read("DCGM_FI_DEV_FB_USED{UUID=\"N/A\",GPU_I_ID=\"1\"} 1\n", ""); len(p.devices) > 0 || len(p.bad) != 1 {
		t.Errorf("a slice of no GPU: %v, %v", p.names(), p.bad)
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

// TestSourcesOfOneValue: which of two lines stands, in whatever order they come, and what memory is made of.
func TestSourcesOfOneValue(t *testing.T) {
	const gpu, slice = `{UUID="g"}`, `{UUID="g",GPU_I_ID="1"}`
	for page, want := range map[string]string{
		"DCGM_FI_DEV_POWER_USAGE" + slice + " 200\nDCGM_FI_DEV_POWER_USAGE" + gpu + " 201\n":                                                   "201000 ? 0",
		"DCGM_FI_DEV_POWER_USAGE" + gpu + " 201\nDCGM_FI_DEV_POWER_USAGE" + slice + " 200\n":                                                   "201000 ? 0",
		"DCGM_FI_DEV_FB_USED" + gpu + " 1000\nDCGM_FI_DEV_FB_FREE" + gpu + " 500\nDCGM_FI_DEV_FB_RESERVED" + gpu + " 24\n":                     "? 1048576000 1598029824",
		"npu_chip_info_used_memory{vdie_id=\"g\"} 5\nnpu_chip_info_hbm_used_memory{vdie_id=\"g\"} 7\n":                                         "? 7340032 0",
		"npu_chip_info_hbm_used_memory{vdie_id=\"g\"} 7\nnpu_chip_info_used_memory{vdie_id=\"g\"} 5\nnpu_chip_info_power{vdie_id=\"g\"} 1.5\n": "1500 7340032 0",
	} {
		p := allMappings().read(page, "")
		d := p.devices["g"]
		r := (&state{}).reading(d, p.counters, still(), false)
		got := fmt.Sprintf("%.6s %.10s %d", show(r.Power), show(r.Memory), d.describe(nil).MemoryBytes)
		if got = strings.ReplaceAll(strings.ReplaceAll(got, "?not_suppo", "?"), "?not_s", "?"); got != want || len(p.bad) > 0 {
			t.Errorf("%s: %s, want %s; %v", page, got, want, p.bad)
		}
	}
}

// TestMemoryOfADeviceStands: used, free and reserved are rounded down one by one, so their sum moves; one cut anew is another slice.
func TestMemoryOfADeviceStands(t *testing.T) {
	read := func(used int, profile string) *device {
		labels := fmt.Sprintf(`{UUID="g",GPU_I_ID="1",GPU_I_PROFILE=%q}`, profile)
		return allMappings().read(fmt.Sprintf("DCGM_FI_DEV_FB_USED%s %d\nDCGM_FI_DEV_FB_FREE%s 5\n", labels, used, labels), "").devices["g/1"]
	}
	first := read(10, "1g").describe(nil)
	before := []usage.Device{first}
	if second := read(9, "1g").describe(before); second != first || first.MemoryBytes != 15<<20 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if other := read(9, "2g").describe(before); other.MemoryBytes != 14<<20 {
		t.Errorf("%+v", other)
	}
}

// TestAPageOfNothingButBadLines is counted whole, and kept in part.
func TestAPageOfNothingButBadLines(t *testing.T) {
	p := allMappings().read("DCGM_FI_DEV_FB_USED 1\n"+strings.Repeat("7\n", maxBad+1)+"DCGM_FI_DEV_FB_USED{UUID=\"g\"} 1\n", "")
	if len(p.bad) != maxBad || p.more != 2 || len(p.devices) != 1 {
		t.Errorf("%d bad lines, %d more, %d devices", len(p.bad), p.more, len(p.devices))
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
		if ok && strings.Count(text, "GPU-last-of-all") == 0 && show((&state{}).reading(last, p.counters, still(), false).Busy) != "7" {
			t.Fatal("the last line reads otherwise")
		}
		for _, v := range []Vendor{NVIDIA, AMD, Ascend, ""} {
			p := ms.read(text, v)
			for _, name := range p.names() {
				s := &state{}
				for range 2 {
					r := s.reading(p.devices[name], p.counters, still(), false)
					for _, m := range []collector.Metric{r.Busy, r.Memory, r.Power, r.Energy, r.Throttle} {
						if m.Read() && m.Value < 0 || m.Read() && m.Reason != 0 {
							t.Fatalf("%s: %+v", name, r)
						}
					}
					if len(r.Faults) > 0 {
						t.Fatalf("%s: the same page twice has faults %v", name, r.Faults)
					}
				}
				topology := usage.Topology{Devices: []usage.Device{p.devices[name].describe(nil)}}
				b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1, Topology: &topology}
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
