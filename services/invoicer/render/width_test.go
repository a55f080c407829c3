package render_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// terminal is how wide a line is, told without the package: of the letters used here, those from U+1100 to U+115F,
// from U+2E80 to U+FF60 and from U+1F300 on take two columns.
func terminal(line string) int {
	n := 0
	for _, r := range line {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me) || r == '\u200e':
		case 0x1100 <= r && r <= 0x115f, 0x2e80 <= r && r <= 0xff60, r >= 0x1f300:
			n += 2
		default:
			n++
		}
	}
	return n
}

// check finds lines that are too wide and characters that could steer a terminal.
func check(t *rapid.T, text string, width int) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if w := terminal(line); w > width {
			t.Fatalf("%d columns of %d: %q", w, width, line)
		}
		for _, r := range line {
			if r != '\u200e' && !unicode.IsPrint(r) {
				t.Fatalf("%U in %q", r, line)
			}
		}
	}
}

func name(t *rapid.T) string {
	letters := []rune("ab-/ .账单客户ｱ한é\u0301\u0302\u202e\u200b\u200d\ufe0f\x1b\n\t😀שלا\u2066\u00a0\u3000%")
	return rapid.StringOfN(rapid.SampledFrom(letters), 0, 60, -1).Draw(t, "name")
}

func decimal(t *rapid.T) string {
	return fmt.Sprintf("%d.%02d", rapid.Int64Range(-1<<50, 1<<50).Draw(t, "whole"), rapid.IntRange(0, 99).Draw(t, "cents"))
}

func quantity(t *rapid.T) bill.Quantity {
	part := func(name string) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(-1<<58, 1<<58)).Draw(t, name)
	}
	q := bill.Quantity{Coverage: bill.Coverage{Measured: part("measured"), Inferred: part("inferred"), Missing: part("missing"), TopUp: part("top-up")}}
	q.MilliGPUSeconds = q.Coverage.Measured + q.Coverage.Inferred + q.Coverage.Missing + q.Coverage.TopUp
	q.GPUHours = bill.GPUHours(q.MilliGPUSeconds)
	return q
}

func document(t *rapid.T) *bill.Document {
	d := &bill.Document{
		Kind:    rapid.SampledFrom([]string{bill.KindInvoice, bill.KindAdvance, bill.KindCorrection, bill.KindCancellation, bill.KindPreview}).Draw(t, "kind"),
		Invoice: name(t), Customer: name(t), Contract: name(t), Currency: rapid.SampledFrom([]string{"CNY", "JPY", "KWD"}).Draw(t, "currency"),
		Timezone: name(t), Rounding: rapid.SampledFrom([]string{"half_away_from_zero", "half_even", "up", "down"}).Draw(t, "rounding"),
		Period:  bill.DocumentPeriod{From: "2026-02-01T00:00:00+08:00", To: rapid.SampledFrom([]string{"2026-03-01T00:00:00+09:30", "\x1b"}).Draw(t, "to")},
		Closing: rapid.IntRange(0, 1000).Draw(t, "closing"), Quantity: quantity(t), Total: decimal(t), RoundingBound: "0.015",
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "lines") {
		l := bill.DocumentLine{
			Line: i + 1, SKU: name(t), PricingMode: rapid.SampledFrom([]string{"on_demand", "\u202e"}).Draw(t, "mode"), Region: name(t),
			ServiceTier: name(t), Dedicated: rapid.Bool().Draw(t, "dedicated"), Leases: rapid.IntRange(0, 1<<40).Draw(t, "leases"),
			Devices: rapid.IntRange(0, 1<<40).Draw(t, "devices"), Quantity: quantity(t), Amount: decimal(t), Now: decimal(t),
			Before: rapid.SampledFrom([]string{"", "12.00"}).Draw(t, "before"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "rows") {
			l.Rows = append(l.Rows, bill.DocumentRow{
				Kind: rapid.SampledFrom([]meter.Kind{meter.Leased, meter.TopUp}).Draw(t, "kind"), MilliGPUSeconds: rapid.Int64().Draw(t, "milli"),
				Steps: []string{"on_demand " + decimal(t) + "/gpu-hour", "region " + name(t) + " 88%", name(t)}, PerGPUHour: decimal(t),
				Exact: decimal(t) + "…", ExactFraction: "1234567890123456789012345678901234567890/7",
			})
		}
		d.Lines = append(d.Lines, l)
	}
	for range rapid.IntRange(0, 2).Draw(t, "unbilled") {
		d.Unbilled = append(d.Unbilled, bill.UnbilledLine{
			Standing: rapid.SampledFrom([]meter.Standing{meter.Waived, meter.Refused}).Draw(t, "standing"),
			Reason:   rapid.SampledFrom([]string{"overlap", "no_rate", "\x07"}).Draw(t, "reason"), SKU: name(t), Leases: 3, Quantity: quantity(t),
		})
	}
	return d
}

func options(t *rapid.T) render.Options {
	return render.Options{
		Language: rapid.SampledFrom([]render.Language{render.English, render.Chinese}).Draw(t, "language"),
		Width:    rapid.IntRange(40, 140).Draw(t, "width"),
	}
}

// Whatever a document says, no line is wider than the terminal, nothing in it can steer the terminal, and every figure
// stands there whole.
func TestNoInvoiceIsTooWide(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d, o := document(rt), options(rt)
		text := render.Invoice(d, o)
		check(rt, text, o.Width)
		if o.Width < 60 {
			return // too narrow for the longest figures beside their heads
		}
		ungrouped := strings.ReplaceAll(text, ",", "")
		for _, l := range d.Lines {
			if !strings.Contains(ungrouped, l.Amount) || !strings.Contains(ungrouped, l.Quantity.GPUHours) {
				rt.Fatalf("line %d: %s or %s is not whole in\n%s", l.Line, l.Amount, l.Quantity.GPUHours, text)
			}
		}
		if !strings.Contains(ungrouped, d.Total) {
			rt.Fatalf("total %s is not whole in\n%s", d.Total, text)
		}
	})
}

func TestNoTableIsTooWide(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := options(rt)
		docs := rapid.SliceOfN(rapid.Custom(document), 0, 4).Draw(rt, "documents")
		check(rt, render.List(docs, o), o.Width)
		var blocks []bill.Block
		var refusals []meter.Refusal
		for range rapid.IntRange(0, 3).Draw(rt, "problems") {
			blocks = append(blocks, bill.Block{Contract: name(rt), Customer: name(rt), Period: span.Span{From: 3600, To: 86400}, Reason: name(rt)})
			refusals = append(refusals, meter.Refusal{ID: name(rt), Reason: name(rt), Detail: name(rt), Customer: name(rt), Lease: name(rt), At: 3601})
		}
		check(rt, render.Blocked(blocks, o), o.Width)
		check(rt, render.Refusals(refusals, o), o.Width)
	})
}
