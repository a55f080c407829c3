package scenario

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const milliPerGPU = 1000

// anyZone is further than the clocks of any two zones are apart, in seconds.
const anyZone span.Second = 2 * 86400

// quantityUnits are the units of a quantity, in seconds of a whole GPU.
//
//tidy:const
var quantityUnits = map[string]int64{"gpu-second": 1, "gpu-minute": 60, "gpu-hour": 3600, "gpu-day": 86400}

// parseQuantity reads "0.5 gpu-hours" into milli-GPU-seconds, exactly.
func parseQuantity(text string) (int64, error) {
	number, unit, _ := strings.Cut(text, " ")
	value, err := money.ParseDecimal(number)
	if err != nil {
		return 0, err
	}
	seconds, known := quantityUnits[strings.TrimSuffix(unit, "s")]
	if !known {
		return 0, fmt.Errorf("quantity %.40q has no known unit; write %s gpu-hours, gpu-minutes or gpu-seconds", text, number)
	}
	return milli(text, value.Mul(value, big.NewRat(seconds, 1)))
}

// milli turns seconds of a GPU into milli-GPU-seconds; a part of one cannot be held by anyone.
func milli(text string, seconds *big.Rat) (int64, error) {
	scaled := seconds.Mul(seconds, big.NewRat(milliPerGPU, 1))
	if !scaled.IsInt() || !scaled.Num().IsInt64() {
		return 0, fmt.Errorf("%.40q is not a whole number of milli-GPU-seconds; write it exactly, in gpu-seconds", text)
	}
	return scaled.Num().Int64(), nil
}

// parseGPUTime reads the time of a whole GPU, such as 1h30m, 9s or 0.143s, into milli-GPU-seconds.
func parseGPUTime(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	rest, negative := strings.CutPrefix(text, "-")
	sum := new(big.Rat)
	for _, u := range []struct {
		letter  string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		after, ok := strings.CutPrefix(rest[len(number):], u.letter)
		if !ok || number == "" {
			continue
		}
		value, err := money.ParseDecimal(number)
		if err != nil {
			return 0, err
		}
		sum.Add(sum, value.Mul(value, big.NewRat(u.seconds, 1)))
		rest = after
	}
	if rest != "" || strings.Trim(text, "-") == "" {
		return 0, fmt.Errorf("%.40q is not a length of time; write it like 30m, 9s or 1h30m", text)
	}
	if negative {
		sum.Neg(sum)
	}
	return milli(text, sum)
}

// parseSeconds reads a length of time in whole seconds.
func parseSeconds(text string) (int64, error) {
	v, err := parseGPUTime(text)
	if err == nil && v%milliPerGPU != 0 {
		return 0, fmt.Errorf("%.40q is not a whole number of seconds; write it like 30m or 9s", text)
	}
	return v / milliPerGPU, err
}

// parseBatch reads how often a collector flushes, since a batch never crosses a minute, or how often its source looks.
func parseBatch(text string) (int64, error) {
	v, err := parseSeconds(text)
	if err == nil && (v < 1 || span.SecondsPerMinute%v != 0) {
		return 0, fmt.Errorf("%s does not divide a minute; write 60s or 10s", text)
	}
	return v, err
}

// parseUtil reads a utilisation in percent.
func parseUtil(text string) (uint8, error) {
	if text == "unknown" {
		return usage.BusyUnknown, nil
	}
	v, err := strconv.ParseUint(text, 10, 8)
	if err != nil || v > 100 {
		return 0, fmt.Errorf("utilisation %.40q is neither 0 to 100 nor unknown; write 85", text)
	}
	return uint8(v), nil
}

func parseCount(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a whole number; write 8", text)
	}
	return v, nil
}

func parseRun(text string) (uint64, error) {
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("run %.40q is not a number from 1; write 1", text)
	}
	return v, nil
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("%.40q is neither true nor false; write true", text)
	}
	return text == "true", nil
}

// parseTotal reads "36.00 CNY".
func parseTotal(text string) (money.Rounded, error) {
	number, code, found := strings.Cut(text, " ")
	if !found {
		return money.Rounded{}, fmt.Errorf("total %.40q names no currency; write %.20s USD", text, number)
	}
	currency, err := money.ParseCurrency(code)
	if err != nil {
		return money.Rounded{}, err
	}
	return money.ParseRounded(number, currency)
}

// periodsIn lists the periods of a contract that start within a local month (2026-02), on a local date, each in the zone in force, or
// at an instant; there one may also be meant that was a period until an amendment or a termination became known. c is the contract's last version.
func (p *parsing) periodsIn(c *contract.Contract, text string) ([]span.Span, error) {
	var near span.Span
	var named func(calendar.Date, span.Second) bool
	switch at, err := span.Parse(text); {
	case err == nil:
		near, named = span.Span{From: at, To: at + 1}, func(_ calendar.Date, start span.Second) bool { return start == at }
	case strings.Count(text, "-") == 1:
		first, err := calendar.ParseDate(text + "-01")
		if err != nil || first.Year >= 2200 {
			return nil, fmt.Errorf("period %.40q is no month before 2200; write it like 2026-02", text)
		}
		near = span.Span{From: c.Zone.StartOfDay(first), To: c.Zone.StartOfDay(first.AddDays(31))}
		named = func(d calendar.Date, _ span.Second) bool { return d.Year == first.Year && d.Month == first.Month }
	default:
		day, err := calendar.ParseDate(text)
		if err != nil || day.Year >= 2200 {
			return nil, fmt.Errorf("period %.40q is neither a month, a date nor an instant; write 2026-02 or 2026-02-01", text)
		}
		near, named = span.Span{From: c.Zone.StartOfDay(day), To: c.Zone.StartOfDay(day.AddDays(1))}, func(d calendar.Date, _ span.Second) bool { return d == day }
	}
	if near.To > contract.Beyond {
		return nil, fmt.Errorf("period %.40q lies too far ahead; write one before 2200", text)
	}
	var out []span.Span
	for whole := range p.register.Periods(c.ID).From(near.From - anyZone) {
		if whole.From >= near.To+anyZone {
			break
		}
		if named(p.zone(c.ID, whole.From).DateOf(whole.From), whole.From) {
			out = append(out, whole)
		}
	}
	if at, err := span.Parse(text); err == nil && len(out) == 0 {
		return p.once(c.ID, at), nil
	}
	return out, nil
}

// once is the period that began at an instant before the last amendment or termination that moved it, if any.
func (p *parsing) once(id string, at span.Second) []span.Span {
	for i, s := range slices.Backward(p.s.statements) {
		switch s.Fact.Body.(type) {
		case *fact.ContractAmended, *fact.ContractTerminated:
		default:
			continue
		}
		if s.Fact.Body.Entity() != id {
			continue
		}
		if was, ok := p.register.Before(uint64(i + 1)).Periods(id).At(at); ok && was.Span.From == at {
			return []span.Span{was.Span}
		}
	}
	return nil
}
