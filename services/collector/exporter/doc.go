// Package exporter owns live hardware that is read through another program's text endpoint: NVIDIA's dcgm-exporter, AMD's
// device-metrics-exporter and Ascend's npu-exporter. One endpoint is one collector.Unit. It owns the text format, the
// mapping of each vendor's series to a collector.Reading, and the question whether a page is fresh.
//
// It does not own when an endpoint is asked and what a missing answer means for the node (package live), nor drivers
// (package nvml).
//
// Why the text parser is our own: the one of prometheus/common gives up the whole page at the first line that it cannot read, and
// merges lines into families without their numbers. Here one bad line must cost one line, and be reported with its number.
//
// # Units
//
//	busy      percent. dcgm: DCGM_FI_DEV_GPU_UTIL, else DCGM_FI_PROF_GR_ENGINE_ACTIVE (a ratio) times 100, rounded half up.
//	          amd: gpu_gfx_activity, else the mean of gpu_gfx_busy_instantaneous over the compute cores; of a partition the
//	          latter alone, because the activity, which stands with the first one, is the whole GPU's. ascend:
//	          npu_chip_info_utilization. Up to 200 is kept as it came (drivers are known to say 101; the recorder clamps); above
//	          that it is no percentage, and not available.
//	memory    bytes. All three exporters count in units of 1,048,576 bytes, whatever their help texts call them: 64 GiB of
//	          Ascend read 65536, 192 GiB of AMD read 196592 (16 MiB are kept back). Ascend's vNPU count in 1,024 bytes.
//	          AMD's total of before 2024, gpu_total_memory, counts in 1,000,000: 64 GiB read 68702.
//	power     milliwatt, from watt.
//	energy    millijoule, the device's running counter. dcgm says millijoule, amd microjoule; ascend has none.
//	throttle  NVML's bit set; dcgm alone has it.
//
// # Unknown
//
// Blank cells, N/A, NaN, infinities, negative numbers and the drivers' sentinels (value.go) are ReasonNotAvailable, never zero.
// A series that a device never had is ReasonNotSupported; one that it had before and lacks now is ReasonNotAvailable. Power and
// energy are never a slice's: they are the GPU's, which is a device of its own here, even where the exporter shows its slices
// only. An endpoint that does not answer in time makes its devices ReasonTimeout, 401 and 403 ReasonPermission, anything else
// ReasonError. A device that the page no longer shows is ReasonLost until the next Scan; one that a torn page does not show,
// or a page without any device (an exporter that starts), is ReasonError and stays known.
//
// # Names
//
// A device is called by its UUID (ascend: vdie_id; amd without gpu_uuid: the serial number), never by an index. A MIG slice
// is UUID/GPU_I_ID, unless the exporter gives it a UUID of its own (MIG-...). An AMD partition is its own UUID, or
// UUID/partition where partitions share one. An Ascend vNPU is vdie_id/v_dev_id. Leases of slices have to use these names.
//
// # Freshness
//
// An exporter shows its last page until it refreshes, and one whose source died shows it for ever. A page that shows what the one before
// showed measures nothing, so its values are ReasonStale: a source that refreshes every 30 s is seen in one second of 30. Where
// values moved in the page before, one repeat is the drift of two clocks of a second, and is believed (collector.Repeats). What shows that a
// page moves is its witness: the device's energy counter together with all its other values, as an idle GPU draws power; slices are judged with
// their GPU. Where lines carry a time (ascend), it is the witness of each line, which is also stale once it is older than MaxAge (30 s). A
// device with neither counter nor times has no witness: it is never called stale, and its capability says so.
//
// Lines that are not used, and devices that are stale or another endpoint's, are told in Sample's error (collector.ErrPartly): with the
// page, a line or device, and what to do. The other readings stand.
//
// # Faults
//
// XIDs: increases of DCGM_EXP_XID_ERRORS_TOTAL by code, else of DCGM_EXP_XID_ERRORS_COUNT (a window: a fall is no
// event), else a change of DCGM_FI_DEV_XID_ERRORS to another code than 0; that gauge holds the last code for ever, so the same
// code again is invisible, and the capability says so. Ascend's error codes are FaultVendor.
// ECC: increases of uncorrected errors, FaultECC with the increase. Health: falling to 0 is FaultVendor with code 0, since
// the exporter names no cause. What stands when a device is first seen is no fault: nobody knows when it came. Several
// increases in one scrape are one fault, as a second holds equal faults once.
package exporter
