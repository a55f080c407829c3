// Package recorded owns the collector's source that replays recorded traces: one series per device and the seconds in
// which the recording collector ran. The same trace gives the same readings every time.
//
// It does not own the traces (services/importer), nor real devices.
package recorded
