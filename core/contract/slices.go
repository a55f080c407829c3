package contract

import (
	"maps"
	"slices"
	"strings"
)

// A slice is a part of a GPU that is sold as a SKU of its own (design page 3b, Slices). What a lease holds of it is stated in milli, by
// which it is conserved and covered; its price may be per slice, whatever its share: each device that a lease names is one slice, and
// of a lease without devices each that it counts.

// sliceName is the unit of a price per slice.
func sliceName(unit string) string { return "slice-" + strings.TrimPrefix(unit, "gpu-") }

// PerSlice tells whether a price of the rate is per slice: then the share of a slice decides what a milli-GPU costs.
func (r Rate) PerSlice() bool { return r.OnDemand.PerSlice || r.Cap != nil && r.Cap.Price.PerSlice }

// sliceOf reads of which SKU the rate's is a slice. A slice is not cut again.
func (r *reader) sliceOf(s section, rate *Rate) {
	set(r, s, "slice_of", "name the SKU of the whole GPU, such as a100-80g", parseName, func(v string) { rate.SliceOf = v })
	n, field, sku, of := s.values["slice_of"], join(s.field, "slice_of"), rate.SKU, rate.SliceOf
	r.later = append(r.later, func(all []Rate) {
		whole, _ := rateOf(all, of)
		switch {
		case of == "":
		case of == sku:
			r.failf(n, field, "name the SKU of the whole GPU", "%q is no slice of itself", sku)
		case whole.SliceOf != "":
			r.failf(n, field, "name the SKU of the whole GPU, "+whole.SliceOf, "%q is itself a slice", of)
		}
	})
}

// coversSlices reads whether a reservation covers slices of its SKU too.
func (r *reader) coversSlices(f section, sku string, out *Reservation) {
	set(r, f, "slices", "write true", parseBool, func(v bool) { out.Slices = v })
	n, field, name, covers := f.values["slices"], join(f.field, "slices"), out.Name, out.Slices
	r.later = append(r.later, func(all []Rate) {
		if !covers {
			return
		}
		cut := 0
		for _, rate := range all {
			if rate.SliceOf != sku {
				continue
			}
			if cut++; rate.commits(name) {
				r.failf(f.values["name"], join(f.field, "name"), "write another name", "%q is the name of a commitment of its slice %s", name, rate.SKU)
			}
		}
		if cut == 0 {
			r.failf(n, field, "write slice_of: "+sku+" in the rate of a slice, or remove it", "no rate is a slice of %q", sku)
		}
	})
}

// reservedFor lists the reservations that cover a SKU: its own, and those of the whole GPU that cover slices.
func (c *Contract) reservedFor(sku string) []Reservation {
	rate, _ := c.Rate(sku)
	out := slices.Clone(rate.Reserved)
	if whole, ok := c.Rate(rate.SliceOf); ok {
		out = append(out, slices.DeleteFunc(slices.Clone(whole.Reserved), func(x Reservation) bool { return !x.Slices })...)
	}
	return out
}

// slicesOf lists the SKUs that are slices of one, in the order of the document.
func (c *Contract) slicesOf(sku string) []string {
	var out []string
	for _, rate := range c.Rates {
		if rate.SliceOf == sku {
			out = append(out, rate.SKU)
		}
	}
	return out
}

// sliceChange names what an amendment must not change of slices: of which SKU one is a slice, since who is covered by what depends on
// all of a whole GPU's leases and its slices' together. It may begin or cease to be one.
func sliceChange(versions []Version, c *Contract) string {
	whole := map[string]string{} // by slice
	for _, v := range append(slices.Clone(versions), Version{Contract: c}) {
		for _, rate := range v.Contract.Rates {
			if before := whole[rate.SKU]; rate.SliceOf != "" && before != "" && before != rate.SliceOf {
				return "of which SKU " + rate.SKU + " is a slice"
			} else if rate.SliceOf != "" {
				whole[rate.SKU] = rate.SliceOf
			}
		}
	}
	for _, sku := range slices.Sorted(maps.Keys(whole)) {
		if whole[whole[sku]] != "" {
			return "of which SKU " + whole[sku] + " is a slice"
		}
	}
	return ""
}

// notePool remembers which SKUs are cut from one: their leases compete for what covers slices.
func (r *Register) notePool(c *Contract) {
	for _, rate := range c.Rates {
		of := supplied{c.ID, rate.SliceOf}
		if rate.SliceOf == "" || slices.Contains(r.slices[of], rate.SKU) {
			continue
		}
		r.whole[supplied{c.ID, rate.SKU}] = rate.SliceOf
		r.slices[of] = slices.Sorted(slices.Values(append(r.slices[of], rate.SKU)))
	}
}

// Whole is the SKU that one is a slice of in some version of a contract, else the SKU itself.
func (r *Register) Whole(id, sku string) string {
	if whole := r.whole[supplied{id, sku}]; whole != "" {
		return whole
	}
	return sku
}

// Pool lists the SKUs whose leases compete for commitments with those of one: itself, or the whole GPU and all its slices.
func (r *Register) Pool(id, sku string) []string {
	whole := r.Whole(id, sku)
	return append([]string{whole}, r.slices[supplied{id, whole}]...)
}

// PricesSlices tells whether some document states a price per slice.
func (r *Register) PricesSlices() bool { return r.perSlice }
