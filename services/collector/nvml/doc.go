// Package nvml owns the sampling of NVIDIA GPUs through the driver's library: who is there, what each GPU and MIG slice says of a
// second, and which faults came. It does not own when a second is sampled, nor what happens to a GPU that does not answer (package
// live), nor metrics that only dcgm-exporter has.
//
// It needs Linux and cgo; any other build has an Open that says so. The library is loaded at run time by path, once in a process.
//
// On amd64 and arm64 a program with this package starts everywhere, however it is linked and whether or not there is a driver:
// forward.S defines every function that go-nvml leaves undefined, and Open leads them to the library. So go-nvml reaches the
// library only after an Open: before it each call returns NVML_ERROR_UNINITIALIZED, and after it one that the library lacks
// NVML_ERROR_FUNCTION_NOT_FOUND. On other architectures the dynamic linker binds each call when it is made: such a program does
// not start when it is linked with -z now or against musl, and a call of a missing function ends the process.
//
// musl has two constants less than go-nvml wants: CGO_CFLAGS="-O2 -DRTLD_DEEPBIND=8 -DRTLD_DI_ORIGIN=6" builds it there, where
// neither is used, and CGO_ENABLED=0 leaves NVML out.
//
// # What each value is
//
//	busy      share of the time since the sample before in which a kernel ran. Hopper and newer: GPM, exactly that interval,
//	          for slices too. Older: the mean of the driver's own samples since then, or where there is nothing new the
//	          driver's last period (a sixth of a second to a second). GPM metric 1 (graphics utilisation) is the one that
//	          measures time, as utilization.gpu does; metric 2 measures how many SMs ran, so that a small kernel which runs
//	          all the time would look idle. GPM measures GPU instances: where compute instances share one, theirs is unknown.
//	memory    bytes in use without what the driver reserves; with drivers before version 2 of the call, with it
//	power     milliwatt: on Ampere (but GA100) and newer the driver's mean over a second, before it a point
//	energy    the GPU's running counter; it starts anew with the driver, and is passed on as it is. Never of a slice
//	throttle  the bits that hold at that moment
//
// A GPU in MIG mode has no busy of its own: its slices have, and a second value for the same kernels would look like use without
// a lease.
//
// An error is never a value. Blanks of the driver (0x7ffffff0 to f3, their 64-bit and floating forms, all ones) are not available;
// 101 to 200 percent are a full second as drivers round it; more is no percentage. While a driver clears the memory of a GPU with
// ECC, in the first seconds after it was attached, it reports utilisation that is nobody's: nvidia-persistenced keeps GPUs attached,
// and where persistence mode is off the capability of busy says so.
//
// # Faults
//
// XIDs come by events and are the GPU's, not a slice's; two equal ones are two faults. ECC is the rise of the uncorrected count
// since the driver was loaded, recovery each change of the driver's recovery action, with 0 when it asks for nothing any more. A
// lost device is a fault of the GPU and of each of its slices, once, with the last XID of that second or the driver's return code.
// Row remaps are no fault of their own: the driver says through its recovery action when one needs a reset. Their state is read
// once a minute and shown as a capability. Events that come before a GPU is registered, or while a lost event set is replaced, are
// lost.
//
// # Session
//
// The hardware is closed and opened anew when the driver was loaded anew. A call that hangs in the driver cannot be ended: it holds
// its GPU's lane, nothing else is asked of that GPU, Scan goes on with what it knew, and Close leaves the session open. A library
// of another version than the driver (after an upgrade) stays loaded until the process ends: then only a restart helps.
//
// A session that does not begin is a gap with its reason: no library or no driver, as in a container without devices, is
// not_available, and who may not open the devices has permission.
//
// Which calls a library has is looked up when it is loaded: an older call takes the place of one that is missing, or what it is for
// is not supported.
package nvml
