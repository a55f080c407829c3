// Package nvmltest owns a libnvidia-ml.so.1 for tests: plain C that plays a script, so that all that a driver may do can be had
// second by second on a machine without a GPU, through the same dlopen as the real one. It does not own what is expected of
// the collector.
//
// A package that uses it calls Main from its TestMain, since a process has one such library:
//
//	func TestMain(m *testing.M) { os.Exit(nvmltest.Main(m)) }
//
//	s := nvmltest.Start(t)                     // builds the library, writes a script, names it in the environment
//	gpu := s.GPU(0).Hopper("GPU-a")            // a GPU that answers everything
//	s.Play(t)                                  // from the next call on the library is in this state
//	h, err := nvml.Open(nvml.Options{LibraryPath: nvmltest.Build(t)})
//	gpu.Set("util", 40).Fail("nvmlDeviceGetPowerUsage", 4)
//	s.Play(t)
//
// The script is a state and not a sequence: a test moves from one second to the next by playing another state, so no clock decides
// what a call answers. What happens inside the library and a test has to wait for comes as lines of Await: "hang gpu0 CALL",
// "released gpu0 CALL", "event gpu0 TYPE DATA", "waits" (whoever took the last event waits for the next), "missed", "registered",
// "init N" and "shutdown N" with the number of sessions that are open after it.
//
// Keys of a GPU: uuid serial name pci memory_total memory_used memory_reserved (bytes) util (percent) ring ("micros:percent
// micros:percent") ring_whole (1: old samples are given again) gpm_support (0, 1) gpm (thousandths of a percent) power (mW) energy (mJ) throttle ecc recovery remap_pending
// remap_failure persistence (0, 1) events (mask) mig (0, 1) max_slices. Keys of a slice: uuid name gi ci gi_slices ci_slices
// attribute_mb memory_total memory_used gpm. Keys of the node: driver, nvml, session. Numbers are decimal or 0x; what is not set
// is not supported.
package nvmltest
