package scenario

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// priced reads a statement that prices or charges stand on besides contracts and leases.
func (p *parsing) priced(n ast.Node, field, kind string, at span.Second) fact.Body {
	switch kind {
	case "price_book_published":
		b := &fact.PriceBookPublished{Effective: at}
		if f, ok := p.section(n, field, "book", "document"); ok {
			set(f, "book", text, &b.Book)
			if f.has("document") {
				b.Document = f.values["document"].String() + "\n"
			}
		}
		return b
	case "spot_price_changed":
		b := &fact.SpotPriceChanged{At: at}
		if f, ok := p.section(n, field, "index", "region", "currency", "price"); ok {
			set(f, "index", text, &b.Index)
			set(f, "region", text, &b.Region)
			set(f, "currency", text, &b.Currency)
			set(f, "price", text, &b.Price)
		}
		return b
	case "meter_recorded":
		b := &fact.MeterRecorded{At: at}
		if f, ok := p.section(n, field, "contract", "meter", "resource", "quantity"); ok {
			set(f, "contract", text, &b.Contract)
			set(f, "meter", text, &b.Meter)
			set(f, "resource", text, &b.Resource)
			set(f, "quantity", text, &b.Quantity)
		}
		return b
	case "contract_terminated":
		b := &fact.ContractTerminated{At: at}
		if f, ok := p.section(n, field, "contract", "by"); ok {
			set(f, "contract", text, &b.Contract)
			set(f, "by", func(v string) (fact.EndedBy, error) { return fact.EndedBy(v), nil }, &b.By)
		}
		return b
	case "package_ended":
		b := &fact.PackageEnded{At: at}
		if f, ok := p.section(n, field, "contract", "purchase", "by"); ok {
			set(f, "contract", text, &b.Contract)
			set(f, "purchase", text, &b.Purchase)
			set(f, "by", func(v string) (fact.EndedBy, error) { return fact.EndedBy(v), nil }, &b.By)
		}
		return b
	default:
		b := &fact.PackagePurchased{At: at, Count: 1}
		if f, ok := p.section(n, field, "contract", "package", "count"); ok {
			set(f, "contract", text, &b.Contract)
			set(f, "package", text, &b.Package)
			set(f, "count", parseCount, &b.Count)
		}
		return b
	}
}
