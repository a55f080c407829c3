package shapes

import (
	_ "embed" // the series
	"fmt"
	"strings"
)

//go:embed trace/helios_earth_vc3sl_2days.csv
var seriesFile string

// seriesMinutes is the length of the series; it is repeated.
const seriesMinutes = 2 * 1440

// series is the part of GPUs that ran, in permille, per minute.
type series [seriesMinutes]int64

func readSeries() (*series, error) {
	s := &series{}
	n := 0
	for line := range strings.Lines(seriesFile) {
		if n++; n == 1 {
			continue
		}
		var minute int
		var running, total int64
		if _, err := fmt.Sscanf(line, "%d,%d,%d", &minute, &running, &total); err != nil {
			return nil, fmt.Errorf("helios series, line %d: %w", n, err)
		}
		if minute != n-2 || minute >= seriesMinutes || total <= 0 || running < 0 || running > total {
			return nil, fmt.Errorf("helios series, line %d: %q is out of order or range", n, line)
		}
		s[minute] = running * 1000 / total
	}
	if n != seriesMinutes+1 {
		return nil, fmt.Errorf("helios series: %d lines; expected %d", n, seriesMinutes+1)
	}
	return s, nil
}

// hash mixes two words (the finaliser of splitmix64): the only noise there is.
func hash(a, b uint64) uint64 {
	x := a ^ b*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// seed is FNV-1a of a name.
func seed(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}
