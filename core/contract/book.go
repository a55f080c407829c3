package contract

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// BadPriceBook refuses a price book that cannot be read; the version before it stays in force.
const BadPriceBook = "bad_price_book"

// Book is one version of a provider's list prices. A contract refers to a book by name and overrides what it states itself.
type Book struct {
	Name     string
	Currency money.Currency
	Rates    []Rate // on-demand prices and their factors, one per SKU
}

// Rate is the list price of a SKU, or false when the book has none.
func (b *Book) Rate(sku string) (Rate, bool) { return rateOf(b.Rates, sku) }

// over is the rate with what it does not state itself taken from a book, field by field.
func (r Rate) over(list Rate) Rate {
	if r.OnDemand.Amount == nil {
		r.OnDemand = list.OnDemand
	}
	if r.Region == nil {
		r.Region = list.Region
	}
	if r.ServiceTier == nil {
		r.ServiceTier = list.ServiceTier
	}
	if r.Dedicated == nil {
		r.Dedicated = list.Dedicated
	}
	return r
}

// RateFrom is the rate of a SKU: what the contract states, and for the rest what the book lists, which may be nil. A book in another
// currency lists nothing for this contract.
func (c *Contract) RateFrom(b *Book, sku string) (Rate, bool) {
	rate, stated := c.Rate(sku)
	if b == nil || b.Currency != c.Currency {
		return rate, stated
	}
	list, listed := b.Rate(sku)
	if listed {
		rate.SKU = sku
		rate = rate.over(list)
	}
	return rate, stated || listed
}

func bookFields() []string { return []string{"book", "currency", "rates"} }

func bookRateClauses() []clause[Rate] {
	return []clause[Rate]{{"region", (*reader).region}, {"service_tier", (*reader).serviceTier}, {"dedicated", (*reader).dedicated}}
}

// ParseBook reads and checks a price book. The error is an Errors with everything found.
func ParseBook(file string, data []byte) (*Book, error) {
	node, broken := parseYAML(file, data)
	if broken != nil {
		return nil, Errors{*broken}
	}
	r, b := &reader{file: file, contract: &Contract{}}, &Book{}
	if s, ok := r.section(node, "", bookFields(), nil); ok {
		b.Name, _ = need(r, s, "book", "name the book, such as list-cn", parseName)
		b.Currency, _ = need(r, s, "currency", "write an ISO 4217 code such as USD", money.ParseCurrency)
		if n, ok := r.required(s, "rates", "write at least one rate"); ok {
			b.Rates = r.rates(n, bookRateClauses())
		}
	}
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}
	return b, nil
}

// bookVersion is one statement of a book and the instant from which it is in force.
type bookVersion struct {
	seq  uint64
	from span.Second
	book *Book
}

// books are all versions of all price books, and the statements that could not be read.
type books struct {
	versions map[uint64]*Book
	byName   map[string][]bookVersion // in order of (from, seq)
	problems map[string][]Problem
}

func newBooks() books {
	return books{map[uint64]*Book{}, map[string][]bookVersion{}, map[string][]Problem{}}
}

// before are the books as known in front of a position. A position names one version for ever, so those stay.
func (b books) before(seq uint64) books {
	out := books{b.versions, make(map[string][]bookVersion, len(b.byName)), b.problems}
	for name, list := range b.byName {
		out.byName[name] = slices.DeleteFunc(slices.Clone(list), func(v bookVersion) bool { return v.seq >= seq })
	}
	return out
}

// since tells whether a book that can be read was stated at a position or behind it.
func (b books) since(seq uint64) bool {
	for at := range b.versions {
		if at >= seq {
			return true
		}
	}
	return false
}

// applyBook takes a price book and names the contracts that refer to it.
func (r *Register) applyBook(f fact.Fact, b *fact.PriceBookPublished) []Changed {
	book, err := ParseBook(b.Book, []byte(b.Document))
	switch {
	case err != nil:
		r.bookProblem(f, b, err.Error())
		return nil
	case book.Name != b.Book:
		r.bookProblem(f, b, "the document is "+book.Name+", the fact says "+b.Book)
		return nil
	}
	r.books.versions[f.Seq] = book
	r.perSlice = r.perSlice || slices.ContainsFunc(book.Rates, Rate.PerSlice)
	list := append(slices.Clone(r.books.byName[b.Book]), bookVersion{f.Seq, b.Effective, book})
	slices.SortFunc(list, func(x, y bookVersion) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.seq, y.seq)) })
	r.books.byName[b.Book] = list
	var out []Changed
	for _, v := range r.Latest() {
		if a := r.agreements[v.Contract.ID]; a.names(b.Book) {
			from := b.Effective
			if a.terminated() { // whether there are prices to take back by decides about the termination and what amends it
				from = min(from, r.refold(a).From)
			} else {
				r.settleEnds(a.id)
			}
			out = append(out, Changed{Contract: a.id, Customer: a.customer, From: r.fromEnds(a.id, from), Leases: true})
		}
	}
	return out
}

// names tells whether a document of the contract refers to a price book, be it in force or not.
func (a *agreement) names(book string) bool {
	return slices.ContainsFunc(a.statements, func(s statement) bool { return s.contract != nil && s.contract.PriceBook == book })
}

func (r *Register) bookProblem(f fact.Fact, b *fact.PriceBookPublished, detail string) {
	r.books.problems[b.Book] = append(r.books.problems[b.Book], Problem{Key: f.Key, Reason: BadPriceBook, Detail: detail, At: b.Effective})
}

// BookProblems lists the statements of a book that could not be taken.
func (r *Register) BookProblems(name string) []Problem { return r.books.problems[name] }

// Book is the price book version stated at that position of the fact stream, or nil.
func (r *Register) Book(seq uint64) *Book { return r.books.versions[seq] }

// BookAt is the position of the version of a contract's price book that is in force at an instant; 0 when there is none, or the
// contract refers to none.
func (r *Register) BookAt(c *Contract, at span.Second) uint64 {
	if c.PriceBook == "" {
		return 0
	}
	for _, v := range slices.Backward(r.books.byName[c.PriceBook]) {
		if v.from <= at {
			return v.seq
		}
	}
	return 0
}

// bookEdges appends to dst the instants within s at which another version of the contract's price book comes into force.
func (r *Register) bookEdges(dst []span.Second, c *Contract, s span.Span) []span.Second {
	if c.PriceBook == "" {
		return dst
	}
	for _, v := range r.books.byName[c.PriceBook] {
		if s.From < v.from && v.from < s.To {
			dst = append(dst, v.from)
		}
	}
	return dst
}
