package contract

import "github.com/goccy/go-yaml/ast"

// Cap limits a price (page 3b, Order of prices): that of (SKU, mode), against rises of the price book, or the final one, after
// factors and window.
type Cap struct {
	Price Price
	Final bool
}

func capFields() []string { return []string{"price", "on"} }

// limit reads 40.00/gpu-hour, or {price: 40.00/gpu-hour, on: final}.
func (r *reader) limit(s section, rate *Rate) {
	n, field := s.values["cap"], join(s.field, "cap")
	rate.Cap = &Cap{}
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		rate.Cap.Price, _ = read(r, n, field, "write 40.00/gpu-hour", parseRatePrice)
		return
	}
	f, ok := r.section(n, field, capFields(), nil)
	if !ok {
		return
	}
	rate.Cap.Price, _ = need(r, f, "price", "write 40.00/gpu-hour", parseRatePrice)
	on := func(text string) (int, error) { return parseChoice(text, CapNames()) }
	set(r, f, "on", "write final", on, func(v int) { rate.Cap.Final = v == 1 })
}

// CapNames lists what a cap can limit, as a contract writes it.
func CapNames() []string { return []string{"list", "final"} }
