package gpuhour

import (
	"context"

	"github.com/gpuhour/gpuhour/core/quote"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// Quote prices a customer's past use under other contracts and in other modes. It trusts no table: it reads the log's facts, then of its
// samples those that can matter. read is told how far it is, rated how many ratings are done of how many; both may be nil.
func Quote(ctx context.Context, b bus.Bus, r quote.Request, read func(span.Second), rated func(done, of int)) (*quote.Result, error) {
	q := quote.New(r)
	reader := journal.OpenTicks(b, journal.Position{})
	for {
		block, _, ok, err := reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if read != nil {
			read(block.At)
		}
		q.Facts(block)
	}
	if err := q.Resolve(); err != nil {
		return nil, err
	}
	reader = journal.Open(b, journal.Position{})
	for q.Sampled() {
		block, _, ok, err := reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if read != nil {
			read(block.At)
		}
		q.Samples(block)
	}
	return q.Result(rated)
}
