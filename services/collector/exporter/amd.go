package exporter

import (
	"strings"

	"github.com/gpuhour/gpuhour/core/usage"
)

func amd() mapping {
	return mapping{
		vendor: AMD,
		rules: map[string]rule{
			"gpu_gfx_activity":           {field: fieldBusy, scale: 1},
			"gpu_usage":                  {field: fieldBusy, scale: 1, rank: 2}, // before 2024
			"gpu_gfx_busy_instantaneous": {field: fieldCores, scale: 1, mean: true},
			"gpu_used_vram":              {field: fieldMemory, scale: mebibyte},
			"gpu_package_power":          {field: fieldPower, scale: watt},
			"gpu_average_package_power":  {field: fieldPower, scale: watt, rank: 2},
			"gpu_power_usage":            {field: fieldPower, scale: watt, rank: 4},
			"gpu_energy_consumed":        {field: fieldEnergy, scale: microJ},
			"gpu_total_vram":             {field: fieldTotal, scale: mebibyte},
			"gpu_total_memory":           {field: fieldTotal, scale: megabyte, rank: 2}, // before 2024
		},
		counters: map[string]counter{
			"gpu_ecc_uncorrect_total": {kind: usage.FaultECC, what: rises},
			"gpu_ecc_uncorrect_umc":   {kind: usage.FaultECC, what: rises, rank: 1},
			"gpu_health":              {kind: usage.FaultVendor, what: falls},
		},
		prepare: prepareAMD,
		place:   placeAMD,
		base:    baseAMD,
	}
}

// baseAMD: the exporter's configuration may put amd_ in front, and some versions write capitals.
func baseAMD(series string) string {
	if strings.HasPrefix(series, "GPU_") || strings.HasPrefix(series, "AMD_") {
		series = strings.ToLower(series)
	}
	return strings.TrimPrefix(series, "amd_")
}

// prepareAMD looks which UUIDs several partitions share: exporters and drivers differ in that.
func prepareAMD(samples []Sample) func(*Sample) (identity, error) {
	first, shared := map[string]string{}, map[string]bool{}
	for i := range samples {
		uuid, partition := samples[i].label("gpu_uuid"), samples[i].label("gpu_partition_id")
		if uuid == "" || plain(partition) == "" {
			continue
		}
		if before, ok := first[uuid]; ok && before != partition {
			shared[uuid] = true
		}
		first[uuid] = partition
	}
	return func(s *Sample) (identity, error) {
		uuid, serial, partition := plain(s.label("gpu_uuid")), plain(s.label("serial_number")), plain(s.label("gpu_partition_id"))
		id := identity{Device: usage.Device{
			Name: uuid, Vendor: string(AMD),
			Model: s.label("card_series", "card_model"), Serial: serial, PCI: s.label("pcie_bus_id"),
		}}
		if uuid == "" {
			id.Name = serial
		}
		if id.Name == "" {
			return id, errNameless
		}
		kind := strings.ToLower(plain(s.label("gpu_compute_partition_type")))
		if !shared[uuid] && (partition == "" || kind == "spx" || kind == "none" || kind == "" && partition == "0") {
			return id, nil
		}
		id.part, id.Profile = true, kind
		if shared[uuid] || uuid == "" {
			id.Parent, id.Name = id.Name, id.Name+"/"+partition
		} else {
			id.Parent = serial // a partition with a UUID of its own leaves the serial number to the GPU
		}
		return id, nil
	}
}

// placeAMD: power, energy and the activity of the graphics engine are the whole GPU's, shown with the first partition, whose
// tenant may be idle while others are not.
func placeAMD(id identity, f field) string {
	switch f {
	case fieldPower, fieldEnergy:
		return id.Parent
	case fieldBusy:
		return ""
	default:
		return id.Name
	}
}
