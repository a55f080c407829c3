package exporter

import (
	"strings"

	"github.com/gpuhour/gpuhour/core/usage"
)

func dcgm() mapping {
	return mapping{
		vendor: NVIDIA,
		rules: map[string]rule{
			"DCGM_FI_DEV_GPU_UTIL":                 {field: fieldBusy, scale: 1},
			"DCGM_FI_PROF_GR_ENGINE_ACTIVE":        {field: fieldEngine, scale: 100},
			"DCGM_FI_DEV_FB_USED":                  {field: fieldMemory, scale: mebibyte},
			"DCGM_FI_DEV_POWER_USAGE":              {field: fieldPower, scale: watt},
			"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {field: fieldEnergy, scale: 1},
			"DCGM_FI_DEV_CLOCKS_EVENT_REASONS":     {field: fieldThrottle, scale: 1},
			"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS":   {field: fieldThrottle, scale: 1, rank: 2},
			"DCGM_FI_DEV_FB_TOTAL":                 {field: fieldTotal, scale: mebibyte},
			"DCGM_FI_DEV_FB_FREE":                  {field: fieldFree, scale: mebibyte},
			"DCGM_FI_DEV_FB_RESERVED":              {field: fieldReserved, scale: mebibyte},
		},
		counters: map[string]counter{
			"DCGM_EXP_XID_ERRORS_TOTAL":               {kind: usage.FaultXID, what: rises, label: "xid"},
			"DCGM_EXP_XID_ERRORS_COUNT":               {kind: usage.FaultXID, what: window, label: "xid", rank: 1},
			"DCGM_FI_DEV_XID_ERRORS":                  {kind: usage.FaultXID, what: becomes, rank: 2},
			"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":           {kind: usage.FaultECC, what: rises},
			"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL":           {kind: usage.FaultECC, what: rises, rank: 1},
			"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": {kind: usage.FaultECC, what: rises, rank: 2},
		},
		prepare: func([]Sample) func(*Sample) (identity, error) { return identifyDCGM },
		place:   placeDCGM,
		base:    func(series string) string { return series },
	}
}

// identifyDCGM: the UUID of the label that the exporter's version has, and the GPU instance in a sliced GPU. Labels of static
// fields are there when the exporter's list has them.
func identifyDCGM(s *Sample) (identity, error) {
	id := identity{Device: usage.Device{
		Name: plain(s.label("uuid", "gpu_uuid")), Vendor: string(NVIDIA),
		Model: s.label("modelname", "model_name", "dcgm_fi_dev_name"), Serial: s.label("dcgm_fi_dev_serial", "serial"), PCI: s.label("pci_bus_id"),
		Profile: s.label("gpu_i_profile"),
	}}
	instance := plain(s.label("gpu_i_id"))
	switch {
	case id.Name == "":
		return id, errNameless
	case strings.HasPrefix(id.Name, "MIG-"):
		id.part = true
	case instance != "":
		id.part, id.Parent, id.Name = true, id.Name, id.Name+"/"+instance
	}
	return id, nil
}

// placeDCGM: DCGM knows no utilisation of a slice but its engine's, and repeats the GPU's power and energy with each slice.
func placeDCGM(id identity, f field) string {
	switch f {
	case fieldPower, fieldEnergy:
		return id.Parent
	case fieldBusy:
		return ""
	default:
		return id.Name
	}
}
