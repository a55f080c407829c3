package contract

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/goccy/go-yaml/ast"
)

// Volume prices on-demand time by how much of a SKU a billing period holds (design page 3b, Volume tiers). Its tiers are in
// GPU-hours; on-demand time, burst and top-ups count. An absolute price is per GPU-hour and replaces the SKU's own.
type Volume struct {
	Tiers
	Covered bool // time that a reservation, forward or package covers counts too; its own price stays
	Spot    bool // spot time counts too; its own price stays
}

func volumeFields() []string { return []string{"by", "per", "method", "tiers", "count", "flat"} }

func (r *reader) volume(s section, rate *Rate) {
	v, ok := r.section(s.values["volume"], join(s.field, "volume"), volumeFields(), nil)
	if !ok {
		return
	}
	out := &Volume{}
	need(r, v, "by", "write gpu-hours", parseVolumeBy)
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
	rate.Volume = out
}

func volumeCounts() []string { return []string{"covered", "spot"} }

func parseVolumeBy(text string) (struct{}, error) {
	switch text {
	case "gpu-hours":
		return struct{}{}, nil
	case "gpus":
		return struct{}{}, errors.New("tiers by GPUs held at once are not supported by this version; write gpu-hours")
	default:
		return struct{}{}, fmt.Errorf("unknown value %.40q; write gpu-hours", text)
	}
}

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
		return nil, fmt.Errorf("the tiers count GPU-hours, %.60q is per %s; write a price per gpu-hour or a percentage", text, p.Unit)
	}
	return p.Amount, nil
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
