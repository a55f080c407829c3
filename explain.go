package gpuhour

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// Explain says why a line of an issued invoice is what it is. It trusts no table: it looks for the invoice in the log, then replays the
// log up to the cut at which the invoice was decided. at is told how far it is; it may be nil.
func Explain(ctx context.Context, b bus.Bus, cfg Config, invoice string, line explain.LineName, at func(span.Second)) (*explain.Explanation, error) {
	search := replay.NewSearch(invoice)
	for reader := journal.OpenTicks(b, journal.Position{}); ; {
		block, _, ok, err := reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		for _, f := range block.Facts {
			search.Take(f)
		}
	}
	subject, closings, err := search.Found(line)
	if err != nil {
		return nil, err
	}
	options := replay.Options{Series: cfg.Invoice.Series, Grace: int64(cfg.Invoice.Grace / time.Second)}
	explainer := replay.NewExplainer(options, subject, closings)
	for reader := journal.Open(b, journal.Position{}); ; {
		block, _, ok, err := reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("explain %s: the replay does not decide it; run `gpuhour audit`", subject.Document.Invoice)
		}
		if at != nil {
			at(block.At)
		}
		x, err := explainer.Take(block)
		if err != nil || x != nil {
			return x, err
		}
	}
}
