package contract

import (
	"fmt"
	"math/big"
	"slices"
)

// Bundle lowers the price of a SKU in periods in which enough of a meter was used (design page 3b, Order of closing).
type Bundle struct {
	With    string   // the meter
	AtLeast *big.Rat // of the period, in the meter's unit
	On      string   // the SKU
	Off     *big.Rat // the part of the amount that is not charged
}

func bundleFields() []string { return []string{"with", "at_least", "on", "off"} }

func (r *reader) bundles(s section, c *Contract) {
	for _, f := range r.sections(s, "bundles", bundleFields(), nil) {
		var b Bundle
		b.With, _ = need(r, f, "with", "name one of the contract's meters", parseName)
		m, ok := c.Meter(b.With)
		if !ok && b.With != "" {
			r.failf(f.values["with"], join(f.field, "with"), "name one of its meters", "the contract has no meter %q", b.With)
		}
		atLeast := func(text string) (*big.Rat, error) { return parseMeasure(text, m.Unit) }
		if ok {
			b.AtLeast, _ = need(r, f, "at_least", "write 50 TB-month", atLeast)
		}
		b.On, _ = need(r, f, "on", "name the SKU", parseName)
		if _, ok := c.Rate(b.On); !ok && b.On != "" && c.PriceBook == "" {
			r.failf(f.values["on"], join(f.field, "on"), "name a SKU that has a rate", "the contract has no rate for %q", b.On)
		}
		b.Off, _ = need(r, f, "off", "write 5%", parseOff)
		if slices.ContainsFunc(c.Bundles, func(o Bundle) bool { return o.With == b.With && o.On == b.On }) {
			r.failf(f.node, f.field, "keep one of them", "%q is bundled with %q already", b.On, b.With)
		}
		c.Bundles = append(c.Bundles, b)
	}
}

// parseOff reads the part of an amount that is given away.
func parseOff(text string) (*big.Rat, error) {
	off, err := parseFactor(text)
	if err == nil && off.Cmp(big.NewRat(1, 1)) > 0 {
		return nil, fmt.Errorf("%.40q is more than the whole; write 100%% or less", text)
	}
	return off, err
}
