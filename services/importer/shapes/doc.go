// Package shapes owns the demo's samples: generated per-second shapes over a public one-minute series. They are not
// measurements. The series is two days of a virtual cluster of the Helios traces (trace/, NOTICE-helios.md): the part of its
// GPUs that ran in each minute.
//
// It does not own which device is leased when (the facts of an importer), nor how samples travel (services/collector).
//
// # What is generated
//
// Everything is integer arithmetic over (device, second), (lease, minute) and the series; noise is a hash. The same
// plan gives the same samples every time. Per second and device: busy percent, memory, power, and the running energy
// counter, which is the sum of power since the window began.
//
//   - A leased device follows the series, shifted in time and scaled to 30 to 100 percent by its lease, so many stay
//     below 60 percent. One lease in four is steady (no noise); the others have noise and short dips, as input
//     pipelines make. A shared device adds up its leases by their shares.
//   - An unleased device idles at 0 to 1 percent, 55 W and 512 MiB.
//   - In each 33 seconds of a node one gap of 1 to 5 seconds, about 9 percent in all: no collector spoke.
//
// And, once each in a plan, what a meter must find (Planted; absent where the plan has no place for it):
//
//   - Silent: a node with a leased device whose collector is silent for 20 minutes;
//   - Ghost: a leased device that is absent from its node's batches for 30 minutes;
//   - Leak: a device that nobody leases and that is busy for an hour;
//   - Unreadable: a leased device that does not report utilisation for 10 minutes, with the reason not supported.
package shapes
