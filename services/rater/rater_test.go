package rater_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/rater"
)

const noon = 1_772_366_400

// TestAnswerOnOtherRows: tables that are rebuilt to other rows than a cut was answered on do not go on as if they were the
// same; the error says what a person can do.
func TestAnswerOnOtherRows(t *testing.T) {
	b := membus.New(func() time.Time { return time.Unix(noon, 0) })
	w := journal.NewWriter(b)
	err := errors.Join(w.Declare(t.Context(), fact.Scripted), w.State(t.Context(), []fact.Fact{
		{Key: "request", Body: &fact.CutRequested{Cut: "c", At: noon}},
		{Key: "cut.done/c", Body: &fact.CutDone{Cut: "c", At: noon, Block: 1, Digest: fact.Hash{1}}},
	}))
	_, tick := w.Tick(t.Context(), noon)
	if err := errors.Join(err, tick); err != nil {
		t.Fatal(err)
	}
	_, err = rater.New(b, memstore.New()).Step(t.Context())
	if !errors.Is(err, bus.ErrConflict) || !strings.Contains(err.Error(), "rate this log with the release that wrote it") {
		t.Errorf("error %v", err)
	}
}
