package gpuhour

import (
	"context"
	"time"

	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// Audit replays the whole log, trusting no table: it rates every block again, decides every close again and compares what
// the log holds with it, every invoice byte by byte. at is told how far it is; it may be nil.
func Audit(ctx context.Context, b bus.Bus, cfg Config, at func(span.Second)) (replay.Audit, error) {
	auditor := replay.NewAuditor(replay.Options{Series: cfg.Invoice.Series, Grace: int64(cfg.Invoice.Grace / time.Second)})
	for reader := journal.Open(b, journal.Position{}); ; {
		block, _, ok, err := reader.Next(ctx)
		if err != nil {
			return replay.Audit{}, err
		}
		if !ok {
			return auditor.Finish(), nil
		}
		if err := auditor.Take(block); err != nil {
			return replay.Audit{}, err
		}
		if at != nil {
			at(block.At)
		}
	}
}
