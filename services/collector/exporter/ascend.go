package exporter

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/usage"
)

func ascend() mapping {
	return mapping{
		vendor: Ascend,
		rules: map[string]rule{
			"npu_chip_info_utilization":      {field: fieldBusy, scale: 1},
			"npu_chip_info_hbm_used_memory":  {field: fieldMemory, scale: mebibyte},
			"npu_chip_info_used_memory":      {field: fieldMemory, scale: mebibyte, rank: 2}, // chips with DDR instead of HBM
			"npu_chip_info_power":            {field: fieldPower, scale: watt},
			"npu_chip_info_hbm_total_memory": {field: fieldTotal, scale: mebibyte},
			"npu_chip_info_total_memory":     {field: fieldTotal, scale: mebibyte, rank: 2},
			"vnpu_pod_aicore_utilization":    {field: fieldBusy, scale: 1},
			"vnpu_pod_used_memory":           {field: fieldMemory, scale: kibibyte},
			"vnpu_pod_total_memory":          {field: fieldTotal, scale: kibibyte},
		},
		counters: map[string]counter{
			"npu_chip_info_health_status":                      {kind: usage.FaultVendor, what: falls},
			"npu_chip_info_error_code":                         {kind: usage.FaultVendor, what: lists},
			"npu_chip_info_hbm_ecc_total_double_bit_error_cnt": {kind: usage.FaultECC, what: rises},
			"npu_chip_info_hbm_ecc_double_bit_error_cnt":       {kind: usage.FaultECC, what: rises, rank: 1},
		},
		prepare: prepareAscend,
		place:   func(id identity, _ field) string { return id.Name },
		base:    baseAscend,
	}
}

// baseAscend: the second error code of a chip is a series of its own, npu_chip_info_error_code_1, and so on.
func baseAscend(series string) string {
	const first = "npu_chip_info_error_code"
	if n, ok := strings.CutPrefix(series, first+"_"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
		return first
	}
	return series
}

// prepareAscend learns which chip an id is, since lines of vNPU and of older versions have the id alone. The id itself is
// an index, and no name.
func prepareAscend(samples []Sample) func(*Sample) (identity, error) {
	chips := map[string]string{}
	for i := range samples {
		s := &samples[i]
		if id, vdie := s.label("id", "npuid"), plain(s.label("vdie_id", "uuid")); id != "" && vdie != "" {
			chips[id] = vdie
		}
	}
	return func(s *Sample) (identity, error) {
		name, index := plain(s.label("vdie_id", "uuid")), s.label("id", "npuid")
		if name == "" {
			name = chips[index]
		}
		if name == "" {
			return identity{}, fmt.Errorf("%w: it has no vdie_id, and no other line says which chip id %q is", errNameless, index)
		}
		id := identity{Device: usage.Device{
			Name: name, Vendor: string(Ascend), Model: s.label("model_name", "modelname", "name"), PCI: s.label("pcie_bus_info", "pcie"),
		}}
		if !strings.HasPrefix(s.Name, "vnpu_") {
			return id, nil
		}
		virtual := plain(s.label("v_dev_id"))
		if virtual == "" || strings.EqualFold(s.label("is_virtual"), "false") {
			return id, errNoDevice // the whole chip, which has lines of its own
		}
		id.part, id.Parent, id.Name, id.PCI = true, name, name+"/"+virtual, ""
		if cores := s.label("aicore_count"); cores != "" {
			id.Profile = cores + " aicore"
		}
		return id, nil
	}
}
