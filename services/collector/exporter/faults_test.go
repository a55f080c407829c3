package exporter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/exporter"
)

func xid(code uint64) usage.Fault { return usage.Fault{Kind: usage.FaultXID, Code: code} }

func vendor(code uint64) usage.Fault { return usage.Fault{Kind: usage.FaultVendor, Code: code} }
func ecc(n uint64) usage.Fault       { return usage.Fault{Kind: usage.FaultECC, Code: n} }

// TestFaults plays pages of one device and names the faults of each.
func TestFaults(t *testing.T) {
	const (
		gauge = `DCGM_FI_DEV_XID_ERRORS{UUID="g"} %v` + "\n"
		in    = `DCGM_EXP_XID_ERRORS_COUNT{UUID="g",xid="%d"} %d` + "\n"
		all   = `DCGM_EXP_XID_ERRORS_TOTAL{UUID="g",xid="%d"} %d` + "\n"
		dbe   = `DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{UUID="g"} %v` + "\n"
		agg   = `DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{UUID="g"} %v` + "\n"
		well  = `gpu_health{gpu_uuid="g"} %v` + "\n" + `gpu_used_vram{gpu_uuid="g"} 1` + "\n"
		chip  = `npu_chip_info_health_status{vdie_id="g"} %v 5` + "\n"
		err0  = `npu_chip_info_error_code{vdie_id="g"} %d 5` + "\n"
		err1  = `npu_chip_info_error_code_1{vdie_id="g"} %d 5` + "\n"
		util  = `DCGM_FI_DEV_GPU_UTIL{UUID="g"} 1` + "\n"
	)
	f := fmt.Sprintf
	type pages []string
	type faults [][]usage.Fault
	for name, c := range map[string]struct {
		pages pages
		want  faults
	}{
		"a gauge that stood is no fault, a change is, back to 0 is not": {
			pages{f(gauge, 31), f(gauge, 31), f(gauge, 79), f(gauge, 79), f(gauge, 0), f(gauge, 79)},
			faults{nil, nil, {xid(79)}, nil, nil, {xid(79)}},
		},
		"a gauge that is blank says nothing": {
			pages{f(gauge, 31), f(gauge, "N/A"), f(gauge, 31), f(gauge, 2147483632), f(gauge, 48)},
			faults{nil, nil, nil, nil, {xid(48)}},
		},
		"a gauge that is left out until there is one": {pages{util, util + f(gauge, 79)}, faults{nil, {xid(79)}}},
		"counts come before the gauge, and show equal ones": {
			pages{f(gauge, 43) + f(in, 43, 1), f(gauge, 43) + f(in, 43, 2), f(gauge, 79) + f(in, 43, 2) + f(in, 79, 1)},
			faults{nil, {xid(43)}, {xid(79)}},
		},
		"what leaves the window is no event, and may come again": {
			pages{f(in, 43, 3), f(in, 43, 1), f(in, 0, 0), f(in, 43, 1)}, faults{nil, nil, nil, {xid(43)}},
		},
		"a total that begins anew counts from 0": {
			pages{f(all, 79, 5), f(all, 79, 2), f(all, 79, 2), f(all, 0, 0), f(all, 79, 1)}, faults{nil, {xid(79)}, nil, nil, {xid(79)}},
		},
		"totals come before windows": {pages{f(all, 43, 1) + f(in, 43, 1), f(all, 43, 1) + f(in, 43, 2)}, faults{nil, nil}},
		"uncorrected errors with their increase, once": {
			pages{f(dbe, 3) + f(agg, 9), f(dbe, 5) + f(agg, 11), f(dbe, 1) + f(agg, 12), f(dbe, "N/A"), f(dbe, 1)},
			faults{nil, {ecc(2)}, {ecc(1)}, nil, nil},
		},
		"a series that the list gets later is no fault": {pages{util, util + f(dbe, 7), util + f(dbe, 8)}, faults{nil, nil, {ecc(1)}}},
		"AMD's health": {
			pages{f(well, 0), f(well, 1), f(well, 0), f(well, 0)}, faults{nil, nil, {{Kind: usage.FaultVendor}}, nil},
		},
		"Ascend's health: -1 is unknown": {
			pages{f(chip, 1), f(chip, -1), f(chip, 0), f(chip, -1), f(chip, 0)}, faults{nil, nil, {{Kind: usage.FaultVendor}}, nil, nil},
		},
		"Ascend's codes, in whatever place": {
			pages{
				f(chip, 1) + f(err0, 7), f(chip, 1) + f(err0, 2162263041) + f(err1, 7), f(chip, 1) + f(err0, 7), f(chip, 1) + f(err0, 0), f(chip, 1) + f(err0, 7),
			},
			faults{nil, {vendor(2162263041)}, nil, nil, {vendor(7)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.pages[0])
			_, e := open(t, exporter.Options{URLs: []string{s.URL}})
			for i, page := range c.pages {
				s.page(page)
				if d := cmp.Diff(c.want[i], sample(t, e)[0].Faults); d != "" {
					t.Fatalf("page %d: %s", i, d)
				}
			}
		})
	}
}

// TestErrorsOfAscendsMemory: its second source, which counts from 0 again when the chip does.
func TestErrorsOfAscendsMemory(t *testing.T) {
	const page = `npu_chip_info_hbm_ecc_double_bit_error_cnt{vdie_id="g"} %d 5` + "\n"
	s := serve(t, fmt.Sprintf(page, 3))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	for i, want := range [][]usage.Fault{nil, {ecc(1)}, {ecc(2)}} {
		s.page(fmt.Sprintf(page, []int{3, 4, 2}[i]))
		if d := cmp.Diff(want, sample(t, e)[0].Faults); d != "" {
			t.Errorf("page %d: %s", i, d)
		}
	}
}

// TestAFaultOfASliceIsTheSlices, as it stands with its line.
func TestAFaultOfASliceIsTheSlices(t *testing.T) {
	page := fixture(t, "dcgm-mig.prom")
	s := serve(t, page)
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	sample(t, e)
	s.page(page + `DCGM_EXP_XID_ERRORS_COUNT{UUID="GPU-aaaaaaaa-0000-0000-0000-000000000001",GPU_I_ID="5",xid="31"} 1` + "\n")
	got, _ := e.Sample(nil)
	for _, r := range got {
		if (len(r.Faults) == 1) != strings.HasSuffix(r.Device, "/5") {
			t.Fatalf("%+v", r)
		}
	}
}
