//go:build linux && cgo

package nvml

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// library is the one of this process. The binding keeps which version of a call a library has in package variables, and bind, or
// the dynamic linker, the address of each call: a second path, or the first one unloaded and loaded elsewhere, would send calls to
// the wrong place. So the path is fixed by the first Open that finds it, and the library is never unloaded.
//
//tidy:process
var library struct {
	sync.Mutex
	path  string
	lib   gonvml.Interface
	calls calls
}

// calls tells which of the calls that a library may lack this one has.
type calls struct {
	name, serial, pci, persistence, driver, version bool

	rates, ring, memory1, memory2, power, energy, fields, eventReasons, throttleReasons bool

	mig, gpm, events bool
}

// required are calls without which there is nothing to sample; of each row one name is enough.
//
//tidy:const
var required = [][]string{
	{"nvmlInit_v2", "nvmlInit"},
	{"nvmlShutdown"},
	{"nvmlErrorString"},
	{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	{"nvmlDeviceGetUUID"},
}

// load loads the library, or returns the one that is loaded.
func load(path string) (gonvml.Interface, calls, error) {
	library.Lock()
	defer library.Unlock()
	switch {
	case library.lib != nil && library.path == path:
		return library.lib, library.calls, nil
	case library.lib != nil:
		return nil, calls{}, fmt.Errorf("load %s: this process has loaded %s, and a process has one NVML library; restart it with the other path", path, library.path)
	}
	loaded := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := loaded.Open(); err != nil {
		err = fmt.Errorf("load %s: %w: install the NVIDIA driver, give a container the driver's libraries, or name the library's path: %w",
			path, err, collector.ErrSession) // it may be installed while the collector runs
		return nil, calls{}, &collector.NoAnswer{Reason: usage.ReasonNotAvailable, Err: err}
	}
	for _, names := range required {
		if !slices.ContainsFunc(names, func(name string) bool { return loaded.Lookup(name) == nil }) {
			return nil, calls{}, fmt.Errorf("load %s: it has no %s, so it is no NVML library, or one too old to be used", path, strings.Join(names, " or "))
		}
	}
	if err := bind(path); err != nil {
		return nil, calls{}, err
	}
	library.path, library.lib, library.calls = path, gonvml.New(gonvml.WithLibraryPath(path)), lookUp(loaded)
	return library.lib, library.calls, nil
}

// lookUp asks for all names that go-nvml may go to; a name behind a bar is an older one that will do.
func lookUp(loaded *dl.DynamicLibrary) calls {
	has := func(names string) bool {
		for name := range strings.FieldsSeq(names) {
			if !slices.ContainsFunc(strings.Split(name, "|"), func(name string) bool { return loaded.Lookup("nvml"+name) == nil }) {
				return false
			}
		}
		return true
	}
	return calls{
		name:        has("DeviceGetName"),
		serial:      has("DeviceGetSerial"),
		pci:         has("DeviceGetPciInfo_v3|DeviceGetPciInfo_v2|DeviceGetPciInfo"),
		persistence: has("DeviceGetPersistenceMode"),
		driver:      has("SystemGetDriverVersion"),
		version:     has("SystemGetNVMLVersion"),

		rates:           has("DeviceGetUtilizationRates"),
		ring:            has("DeviceGetSamples"),
		memory1:         has("DeviceGetMemoryInfo"),
		memory2:         has("DeviceGetMemoryInfo_v2"),
		power:           has("DeviceGetPowerUsage"),
		energy:          has("DeviceGetTotalEnergyConsumption"),
		fields:          has("DeviceGetFieldValues"),
		eventReasons:    has("DeviceGetCurrentClocksEventReasons"),
		throttleReasons: has("DeviceGetCurrentClocksThrottleReasons"),

		mig: has("DeviceGetMigMode DeviceGetMaxMigDeviceCount DeviceGetMigDeviceHandleByIndex DeviceGetGpuInstanceId" +
			" DeviceGetComputeInstanceId DeviceGetAttributes_v2|DeviceGetAttributes"),
		gpm:    has("GpmQueryDeviceSupport GpmSampleAlloc GpmSampleFree GpmSampleGet GpmMigSampleGet GpmMetricsGet"),
		events: has("EventSetCreate EventSetFree EventSetWait_v2|EventSetWait DeviceGetSupportedEventTypes DeviceRegisterEvents"),
	}
}
