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
// between the cut before and that one, and some of it again later. Statements about one instant or under one key, and those
// about contracts, keep their order, because position decides between them. pick gives a number from 0 to n-1.
func Disorder(log replay.Log, cuts []span.Second, pick func(n int) int) replay.Log {
	out := replay.Log{Until: log.Until, Stops: log.Stops}
	within := func(known span.Second) span.Span {
		i, _ := slices.BinarySearch(cuts, known)
		in := span.Span{From: 1, To: log.Until}
		if i < len(cuts) {
			in.To = cuts[i]
		}
		if i > 0 {
			in.From = cuts[i-1] + 1
		}
		return in
	}
	draw := func(in span.Span) span.Second { return in.From + span.Second(pick(int(in.To-in.From)+1)) }
	uses := map[string]int{} // of a key
	for _, s := range log.Statements {
		uses[s.Fact.Key]++
	}
	for _, s := range log.Statements {
		if uses[s.Fact.Key] == 1 {
			s.Known = draw(within(s.Known))
		}
		out.Statements = append(out.Statements, s)
	}
	keepOrder(out.Statements)
	for _, s := range out.Statements {
		if uses[s.Fact.Key] == 1 && pick(4) == 0 { // a repeat stands behind what it repeats
			out.Statements = append(out.Statements, replay.Statement{Known: draw(span.Span{From: s.Known, To: log.Until}), Fact: s.Fact})
		}
	}
	slices.SortStableFunc(out.Statements, func(a, b replay.Statement) int { return cmp.Compare(a.Known, b.Known) })
	for _, m := range log.Measurements {
		in := within(m.Known)
		in.From = max(in.From, m.Batch.Minute.Start()+span.Second(m.Batch.Spoken.Last())+1) // nobody measures ahead
		for range 1 + max(0, pick(4)-2) {
			out.Measurements = append(out.Measurements, replay.Measurement{Known: draw(in), Batch: m.Batch})
		}
	}
	for i := len(out.Measurements) - 1; i > 0; i-- {
		k := pick(i + 1)
		out.Measurements[i], out.Measurements[k] = out.Measurements[k], out.Measurements[i]
	}
	return out
}

// keepOrder deals the drawn instants of statements that speak of one instant out again, in their order.
func keepOrder(list []replay.Statement) {
	same := map[span.Second][]int{}
	for i, s := range list {
		at := occupancy.At(s.Fact.Body) // 0 for contracts and decisions
		same[at] = append(same[at], i)
	}
	for _, of := range same {
		var known []span.Second
		for _, i := range of {
			known = append(known, list[i].Known)
		}
		slices.Sort(known)
		for k, i := range of {
			list[i].Known = known[k]
		}
	}
}
