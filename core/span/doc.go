// Package span owns instants, half-open intervals and second masks: the time arithmetic that everything else shares.
//
// It does not own calendars, zones or periods (core/calendar), and it never reads a clock.
package span
