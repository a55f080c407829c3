package contract

import (
	"fmt"
	"math/big"

	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// IdleRelief lowers the price of measured idleness: of the seconds of an idle run from AfterSeconds on (page 3b, Idle).
type IdleRelief struct {
	BelowPercent  int64    // a second is idle when its measured utilisation is below, 1 to 100
	AfterSeconds  int64    // how long a run lasts before relief begins; at most a day
	BridgeSeconds int64    // an unknown gap of at most so many seconds between idle ones belongs to the run; at most a minute
	Off           *big.Rat // the part of the price that is not charged
}

// Bounds of a run and of a bridge: an hour is judged with the seconds that so much reaches back.
const (
	maxIdleAfterSeconds  = 24 * span.SecondsPerHour
	maxIdleBridgeSeconds = span.SecondsPerMinute
)

func idleFields() []string { return []string{"below", "after", "off", "bridge", "unknown"} }

func (r *reader) idleRelief(s section, c *Contract) {
	f, ok := r.section(s.values["idle_relief"], "idle_relief", idleFields(), nil)
	if !ok {
		return
	}
	relief := &IdleRelief{}
	relief.BelowPercent, _ = need(r, f, "below", "write 5%", parseWholePercent)
	relief.AfterSeconds, _ = need(r, f, "after", "write 15m", bounded(maxIdleAfterSeconds, "24h"))
	relief.Off, _ = need(r, f, "off", "write 50%", parsePart)
	set(r, f, "bridge", "write 10s", bounded(maxIdleBridgeSeconds, "60s"), func(v int64) { relief.BridgeSeconds = v })
	set(r, f, "unknown", "write busy", parseUnknown, func(string) {})
	c.Idle = relief
}

// parseUnknown takes the one answer that this version knows: a second of unknown utilisation is busy, unless a bridge spans it.
func parseUnknown(text string) (string, error) {
	if text != "busy" {
		return "", fmt.Errorf("unknown utilisation as %.20q is not supported by this version; write busy, and a bridge for short gaps", text)
	}
	return text, nil
}

func parseWholePercent(text string) (int64, error) {
	part, err := money.ParsePercent(text)
	if err != nil {
		return 0, err
	}
	part.Mul(part, big.NewRat(100, 1))
	if !part.IsInt() || part.Sign() <= 0 || part.Cmp(big.NewRat(100, 1)) > 0 {
		return 0, fmt.Errorf("%.20q is not a whole per cent from 1 to 100; write 5%%", text)
	}
	return part.Num().Int64(), nil
}

// parsePart reads a percentage from 0 to 100.
func parsePart(text string) (*big.Rat, error) {
	part, err := money.ParsePercent(text)
	if err == nil && (part.Sign() < 0 || part.Cmp(big.NewRat(1, 1)) > 0) {
		err = fmt.Errorf("%.20q is not from 0%% to 100%%; correct it", text)
	}
	return part, err
}

// bounded is a duration of at most so many seconds.
func bounded(most int64, text string) func(string) (int64, error) {
	return func(written string) (int64, error) {
		v, err := parseDuration(written)
		if err == nil && v > most {
			err = fmt.Errorf("%.20q is longer than %s; write at most that", written, text)
		}
		return v, err
	}
}

// lookback is how many seconds before a second can decide about its relief.
func (c *Contract) lookback() span.Second {
	if c.Idle == nil {
		return 0
	}
	return span.Second(c.Idle.AfterSeconds + c.Idle.BridgeSeconds)
}
