package contract

import (
	"fmt"
	"math/big"

	"github.com/goccy/go-yaml/ast"
)

// Volume prices on-demand time by how much of a SKU is used (design page 3b, Volume tiers): how many GPU-hours a billing period
// holds, of which on-demand time, burst and top-ups count, or how many GPUs are held in the same second, of which on-demand time and
// burst count. An absolute price is per GPU-hour and replaces the SKU's own.
type Volume struct {
	Tiers
	Covered bool // time that a reservation, forward or package covers counts too; its own price stays
	Spot    bool // spot time counts too; its own price stays
}

func volumeFields() []string { return []string{"by", "per", "method", "tiers", "count", "flat"} }

// VolumeByNames lists what the tiers of a volume can count, as a contract writes it.
func VolumeByNames() []string { return []string{"gpu-hours", "gpus"} }

func (r *reader) volume(s section, rate *Rate) {
	v, ok := r.section(s.values["volume"], join(s.field, "volume"), volumeFields(), nil)
	if !ok {
		return
	}
	out := &Volume{}
	by := r.method(v, "by", VolumeByNames())
	set(r, v, "per", "write period", parseVolumePer, func(struct{}) {})
	out.Graduated = r.method(v, "method", methods()) == 0
	r.tiers(v, &out.Tiers, parseTierPrice)
	r.flat(v, &out.Tiers)
	for _, name := range r.names(v, "count", "write [covered, spot]", volumeCounts()) {
		out.Covered = out.Covered || name == "covered"
		out.Spot = out.Spot || name == "spot"
	}
	if c := rate.Cap; c != nil && !c.Final && len(out.List) > 0 && out.Absolute() {
		r.failf(s.values["cap"], join(s.field, "cap"), "state lower tier prices, or cap the final price: {price: ..., on: final}",
			"a cap on the list price has nothing to limit where the tiers state prices")
	}
	if VolumeByNames()[by] == "gpus" {
		r.everySecond(v, out.List)
		rate.AtOnce = out
		return
	}
	rate.Volume = out
}

// everySecond refuses what belongs to a period: tiers by GPUs begin anew in every second.
func (r *reader) everySecond(v section, tiers []Tier) {
	const why = "tiers by GPUs held at once price each second by itself"
	for _, key := range []string{"per", "flat"} {
		if n, stated := v.values[key]; stated {
			r.failf(n, join(v.field, key), "remove it, or write by: gpu-hours", "%s, and `%s:` speaks of a period", why, key)
		}
	}
	list, _ := v.values["tiers"].(*ast.SequenceNode)
	for i, tier := range tiers {
		if tier.Flat != nil {
			r.failf(list.Values[i], fmt.Sprintf("%s.tiers[%d].flat", v.field, i), "remove it, or write by: gpu-hours", "%s, and a flat fee belongs to a period", why)
		}
	}
}

func volumeCounts() []string { return []string{"covered", "spot"} }

func parseVolumePer(text string) (struct{}, error) {
	if text != "period" {
		return struct{}{}, fmt.Errorf("unknown value %.40q; write period", text)
	}
	return struct{}{}, nil
}

// parseTierPrice reads an absolute tier price. It is per GPU-hour, as the tiers are.
func parseTierPrice(text string) (*big.Rat, error) {
	p, err := ParsePrice(text)
	if err != nil {
		return nil, err
	}
	if p.Unit != GPUHour {
		return nil, fmt.Errorf("%.60q is per %s; write a price per gpu-hour or a percentage", text, p.Unit)
	}
	return p.Amount, nil
}

// Deciding is the number of milli-GPUs that stands for all that are priced like the given one: the fewest that reach its tier where
// the tier has one price, else the number itself. Of none it is the first tier.
func (t *Tiers) Deciding(milli int64) int64 {
	milli = max(milli, 1)
	parts := t.Parts(big.NewRat(milli, 1000))
	if len(parts) > 1 {
		return milli
	}
	above := new(big.Rat).Mul(parts[0].Above, big.NewRat(1000, 1))
	return new(big.Int).Quo(above.Num(), above.Denom()).Int64() + 1
}

// names reads an optional list of words from a closed list.
func (r *reader) names(s section, key, remedy string, choices []string) (out []string) {
	n, stated := s.values[key]
	if !stated {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.failf(n, join(s.field, key), remedy, "a list is expected, not %s", kind(n))
		return nil
	}
	choice := func(text string) (int, error) { return parseChoice(text, choices) }
	for i, value := range list.Values {
		if v, ok := read(r, value, fmt.Sprintf("%s.%s[%d]", s.field, key, i), remedy, choice); ok {
			out = append(out, choices[v])
		}
	}
	return out
}
