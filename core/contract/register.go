package contract

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
)

// Version is one document of a contract and the instant from which it is in force.
type Version struct {
	Seq      uint64 // position of the fact that stated it: its name in the ledger
	From     span.Second
	Contract *Contract
	Ended    *Terminated // of the version that a termination ends, else nil
}

// Problem is a contract fact that could not be taken as it stands.
type Problem struct {
	Key, Customer, Reason, Detail string
	At                            span.Second
}

// Reasons of problems and of seconds that find no contract.
const (
	BadContract          = "bad_contract"
	SecondSignature      = "second_signature"
	UnsupportedAmendment = "unsupported_amendment"
	UnknownContract      = "unknown_contract"
	WrongCustomer        = "wrong_customer"
	OutsideTerm          = "outside_term"
	NoContract           = "no_contract"
	AmbiguousContract    = "ambiguous_contract"
)

// agreement is one contract with all its versions in order of (From, Seq).
type agreement struct {
	id, customer string
	statements   []statement // in order of position
	versions     []Version
	periods      *Periods
	problems     []Problem
	ended        *ended // nil while nobody terminated it
}

// statement is a contract fact with its document, which is read once.
type statement struct {
	fact.Fact
	contract *Contract
	err      error
}

// Register holds what was agreed, and what was stated of it: every contract and its versions, price books, readings of meters,
// purchases, and the states of leases that meters follow. It answers what was in force at an instant.
type Register struct {
	agreements map[string]*agreement
	customers  map[string][]*agreement // in order of contract id
	versions   map[uint64]Version
	books      books
	readings   map[string]*readings  // by contract
	purchases  map[string][]Purchase // by contract, in order of position
	bought     map[bought]int        // where in purchases
	ends       map[string][]ending   // of packages, likewise
	supplied   map[supplied]bool
	counted    map[supplied]bool
	whole      map[supplied]string   // by slice
	slices     map[supplied][]string // by whole GPU, in order
	perSlice   bool
	lives      map[string][]fact.Fact // what says in which states a lease is, in order of position
	byState    bool                   // some meter bills by them
	before     uint64                 // 0, or the position from which on lives are not looked at
	last       uint64                 // position of the last fact
	lookback   span.Second
}

// NewRegister is an empty register.
func NewRegister() *Register {
	return &Register{
		agreements: map[string]*agreement{}, customers: map[string][]*agreement{}, versions: map[uint64]Version{},
		books: newBooks(), readings: map[string]*readings{}, purchases: map[string][]Purchase{}, bought: map[bought]int{}, ends: map[string][]ending{},
		supplied: map[supplied]bool{}, counted: map[supplied]bool{}, whole: map[supplied]string{}, slices: map[supplied][]string{},
		lives: map[string][]fact.Fact{},
	}
}

// Changed tells which contract's bills a fact can change, and from when on. Leases tells whether what is known of its leases'
// seconds changes too.
type Changed struct {
	Contract, Customer string
	From               span.Second
	Leases             bool
}

// Apply takes a fact that prices or charges stand on, and tells what it can change: of a price book, every contract that
// refers to it. Other facts change nothing.
func (r *Register) Apply(f fact.Fact) []Changed {
	switch b := f.Body.(type) {
	case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated:
		r.last = max(r.last, f.Seq)
		return []Changed{r.applyContract(f)}
	case *fact.PriceBookPublished:
		r.last = max(r.last, f.Seq)
		return r.applyBook(f, b)
	case *fact.MeterRecorded:
		r.last = max(r.last, f.Seq)
		return []Changed{r.applyReading(f, b)}
	case *fact.PackagePurchased:
		r.last = max(r.last, f.Seq)
		r.buy(f, b)
		return []Changed{{Contract: b.Contract, Customer: r.Customer(b.Contract), From: b.At, Leases: true}}
	case *fact.PackageEnded:
		r.last = max(r.last, f.Seq)
		return []Changed{r.applyEnd(f, b)}
	case *fact.LeaseStarted, *fact.LeaseStateChanged, *fact.LeaseStopped:
		return r.applyLife(f, occupancy.At(b))
	default:
		return nil
	}
}

func (r *Register) applyContract(f fact.Fact) Changed {
	id := f.Body.Entity()
	a := r.agreements[id]
	if a == nil {
		a = &agreement{id: id}
		r.agreements[id] = a
	}
	a.statements = append(a.statements, readStatement(f))
	slices.SortFunc(a.statements, func(x, y statement) int { return cmp.Compare(x.Seq, y.Seq) })
	return r.refold(a)
}

// refold works out the versions of a contract anew, and tells what changed.
func (r *Register) refold(a *agreement) Changed {
	id, before := a.id, a.versions
	a.fold(r.listings)
	for _, v := range a.versions {
		r.versions[v.Seq] = v
		r.noteSupplies(v.Contract)
		r.lookback = max(r.lookback, v.Contract.lookback())
		r.byState = r.byState || v.Contract.namesMeters()
	}
	r.index(a)
	r.settleAll(id)
	r.judgeAll(id)
	return Changed{Contract: id, Customer: a.customer, From: r.fromEnds(id, firstDifference(before, a.versions)), Leases: true}
}

func readStatement(f fact.Fact) statement {
	s := statement{Fact: f}
	switch b := f.Body.(type) {
	case *fact.ContractSigned:
		s.contract, s.err = Parse(b.Contract, []byte(b.Document))
	case *fact.ContractAmended:
		s.contract, s.err = Parse(b.Contract, []byte(b.Document))
	}
	return s
}

func (r *Register) index(a *agreement) {
	if a.customer == "" {
		return
	}
	list := r.customers[a.customer]
	at, found := slices.BinarySearchFunc(list, a.id, func(e *agreement, id string) int { return cmp.Compare(e.id, id) })
	if !found {
		r.customers[a.customer] = slices.Insert(list, at, a)
	}
}

// fold reads the documents in order of position; each either becomes a version or a problem.
func (a *agreement) fold(listings func([]Piece) []Listing) {
	a.versions, a.problems, a.ended = nil, nil, nil
	for _, s := range a.statements {
		switch b := s.Body.(type) {
		case *fact.ContractSigned:
			a.sign(s, b)
		case *fact.ContractAmended:
			a.amend(s, b, listings)
		case *fact.ContractTerminated:
			a.terminate(s, b, listings)
		}
	}
	if a.sort(); a.ended != nil {
		a.cut()
	}
	a.periods = newPeriods(a.versions)
}

func (a *agreement) sign(s statement, b *fact.ContractSigned) {
	if len(a.versions) > 0 {
		a.problem(s.Fact, b.Customer, SecondSignature, "the contract is signed already; amend it", a.versions[0].From)
		return
	}
	c := s.contract
	switch {
	case s.err != nil:
		a.problem(s.Fact, b.Customer, BadContract, s.err.Error(), 0)
	case c.ID != b.Contract || c.Customer != b.Customer:
		a.problem(s.Fact, b.Customer, BadContract, "the document is "+c.ID+" of "+c.Customer+", the fact says "+b.Contract+" of "+b.Customer, 0)
	default:
		a.customer = c.Customer
		a.versions = append(a.versions, Version{Seq: s.Seq, From: c.Term.From, Contract: c})
	}
}

func (a *agreement) amend(s statement, b *fact.ContractAmended, listings func([]Piece) []Listing) {
	if len(a.versions) == 0 {
		a.problem(s.Fact, a.customer, UnknownContract, "no signature of this contract is known", b.Effective)
		return
	}
	if s.err != nil {
		a.problem(s.Fact, a.customer, BadContract, s.err.Error(), b.Effective)
		return
	}
	if what := cmp.Or(unsupportedChange(a.versions[0].Contract, s.contract), meterChange(a.versions, s.contract), feeChange(a.versions, s.contract),
		sliceChange(a.versions, s.contract)); what != "" {
		a.problem(s.Fact, a.customer, UnsupportedAmendment, what+" changes; sign a new contract instead", b.Effective)
		return
	}
	if what := cmp.Or(trialChange(a.versions[0].Contract, s.contract), clashingName(a.versions, s.contract)); what != "" {
		a.problem(s.Fact, a.customer, UnsupportedAmendment, what, b.Effective)
		return
	}
	if b.Effective >= s.contract.Term.To { // it would never be in force, and still end what the version before it bills
		a.problem(s.Fact, a.customer, UnsupportedAmendment, "it takes effect when its own term is over, at "+s.contract.Term.To.String()+
			"; let it take effect before, or amend the term's end", b.Effective)
		return
	}
	from := max(b.Effective, a.versions[0].From, s.contract.Term.From) // in another zone the term's first date begins at another instant
	v := Version{Seq: s.Seq, From: from, Contract: s.contract}
	if a.ended == nil {
		a.versions = append(a.versions, v)
	} else if what := a.amendEnded(v, listings); what != "" {
		a.problem(s.Fact, a.customer, UnsupportedAmendment, what, b.Effective)
	}
}

// unsupportedChange names what an amendment must not change: whose contract it is, in which currency, and from when on.
func unsupportedChange(signed, c *Contract) string {
	switch {
	case c.ID != signed.ID || c.Customer != signed.Customer:
		return "contract or customer"
	case c.Currency != signed.Currency:
		return "currency"
	case !sameStart(signed, c):
		return "the term's start"
	default:
		return ""
	}
}

// sameStart tells whether two terms begin at one instant, or with one local date, each in its zone.
func sameStart(a, b *Contract) bool {
	return a.Term.From == b.Term.From || a.BoundText(a.Term.From) == b.BoundText(b.Term.From)
}

func (a *agreement) problem(f fact.Fact, customer, reason, detail string, at span.Second) {
	a.problems = append(a.problems, Problem{Key: f.Key, Customer: customer, Reason: reason, Detail: detail, At: at})
}

// firstDifference is the first instant at which the two lists of versions may disagree. A contract that was not known at all
// changes every second of its leases: those outside its term are refused for another reason now.
func firstDifference(before, after []Version) span.Second {
	if len(before) == 0 && len(after) > 0 {
		return 0
	}
	for i := range max(len(before), len(after)) {
		switch {
		case i >= len(before):
			return after[i].From
		case i >= len(after):
			return before[i].From
		case before[i].Seq != after[i].Seq:
			return min(before[i].From, after[i].From)
		}
	}
	return span.Open
}

// Resolve finds the version in force at an instant by which a lease is billed: of the contract it names, else of the customer's only one
// in force; where there are several, of the only one of them that prices the lease's SKU (page 3b, Which contract). The reason says why there is
// none.
func (r *Register) Resolve(l *fact.LeaseStarted, at span.Second) (Version, string) {
	if l.Contract != "" {
		a := r.agreements[l.Contract]
		switch {
		case a == nil || len(a.versions) == 0:
			return Version{}, UnknownContract
		case a.customer != l.Customer:
			return Version{}, WrongCustomer
		}
		if v, ok := a.inForce(at); ok {
			return v, ""
		}
		return Version{}, OutsideTerm
	}
	var found, match Version
	inForce, matching := 0, 0
	for _, a := range r.customers[l.Customer] {
		v, ok := a.inForce(at)
		if !ok {
			continue
		}
		found = v
		inForce++
		if _, priced := v.Contract.RateFrom(r.Book(r.BookAt(v.Contract, at)), l.SKU); priced {
			match = v
			matching++
		}
	}
	switch {
	case inForce == 0:
		return Version{}, NoContract
	case inForce == 1:
		return found, ""
	case matching == 1:
		return match, ""
	default:
		return Version{}, AmbiguousContract
	}
}

func (a *agreement) inForce(at span.Second) (Version, bool) {
	for i := len(a.versions) - 1; i >= 0; i-- {
		if v := a.versions[i]; v.From <= at {
			return v, v.Contract.Term.Contains(at)
		}
	}
	return Version{}, false
}

// Edges appends to dst the instants within s at which the version, the billing period or the local day of such a
// lease can change.
func (r *Register) Edges(dst []span.Second, named, customer string, s span.Span) []span.Second {
	if a := r.agreements[named]; named != "" && a != nil {
		return r.edges(dst, a, s)
	}
	if named == "" {
		for _, a := range r.customers[customer] {
			dst = r.edges(dst, a, s)
		}
	}
	return dst
}

func (r *Register) edges(dst []span.Second, a *agreement, s span.Span) []span.Second {
	add := func(at span.Second) {
		if s.From < at && at < s.To {
			dst = append(dst, at)
		}
	}
	for i, v := range a.versions {
		add(v.From)
		add(v.Contract.Term.To)
		add(v.Contract.Trial.To) // 0 without one
		in := s.Intersect(v.Contract.Term).Intersect(span.Span{From: v.From, To: span.Open})
		if i+1 < len(a.versions) {
			in.To = min(in.To, a.versions[i+1].From)
		}
		for at := in.From; at < in.To; {
			_, day := v.Contract.Zone.Day(at)
			if v.Contract.Billing.Cycle == calendar.Hourly { // every other period begins with a day
				day = min(day, v.Contract.Period(at).Span.To)
			}
			at = day
			add(at)
		}
		dst = v.Contract.Schedule.Edges(dst, v.Contract.Zone, in)
		dst = r.bookEdges(dst, v.Contract, in)
	}
	return dst
}

// VersionEdges appends to dst the instants within s at which such a lease can come under another contract or version.
func (r *Register) VersionEdges(dst []span.Second, named, customer string, s span.Span) []span.Second {
	list := r.customers[customer]
	if named != "" {
		list = nil
		if a := r.agreements[named]; a != nil {
			list = []*agreement{a}
		}
	}
	for _, a := range list {
		for _, v := range a.versions {
			for _, at := range [2]span.Second{v.From, v.Contract.Term.To} {
				if s.From < at && at < s.To {
					dst = append(dst, at)
				}
			}
			if len(list) > 1 { // which of them prices the SKU
				dst = r.bookEdges(dst, v.Contract, s)
			}
		}
	}
	return dst
}

// Version is the version stated at that position of the fact stream.
func (r *Register) Version(seq uint64) (Version, bool) {
	v, ok := r.versions[seq]
	return v, ok
}

// Lookback is how many seconds before a second may decide about its price, under any contract.
func (r *Register) Lookback() span.Second { return r.lookback }

// InForce is the version of a contract in force at an instant.
func (r *Register) InForce(id string, at span.Second) (Version, bool) {
	if a := r.agreements[id]; a != nil {
		return a.inForce(at)
	}
	return Version{}, false
}

// Governing is the version of a contract that speaks of an instant, be it to say that the term was over by then: what was
// billed before the term was cut short is corrected by its words.
func (r *Register) Governing(id string, at span.Second) (Version, bool) {
	if a := r.agreements[id]; a != nil {
		for _, v := range slices.Backward(a.versions) {
			if v.From <= at {
				return v, true
			}
		}
	}
	return Version{}, false
}

// PaysAhead tells whether any version of a contract has a fee that is paid in advance.
func (r *Register) PaysAhead(id string) bool {
	a := r.agreements[id]
	return a != nil && slices.ContainsFunc(a.versions, func(v Version) bool { return v.Contract.paysAhead() })
}

// Last is the last version of a contract.
func (r *Register) Last(id string) (Version, bool) {
	if a := r.agreements[id]; a != nil && len(a.versions) > 0 {
		return a.versions[len(a.versions)-1], true
	}
	return Version{}, false
}

// Latest lists the last version of every contract, in order of contract id.
func (r *Register) Latest() []Version {
	var out []Version
	for _, a := range r.agreements {
		if n := len(a.versions); n > 0 {
			out = append(out, a.versions[n-1])
		}
	}
	slices.SortFunc(out, func(x, y Version) int { return cmp.Compare(x.Contract.ID, y.Contract.ID) })
	return out
}

// Problems lists the facts of a contract that could not be taken.
func (r *Register) Problems(id string) []Problem {
	var out []Problem
	if a := r.agreements[id]; a != nil {
		out = a.problems
	}
	return slices.Concat(out, r.purchaseProblems(id), r.endProblems(id), r.readingProblems(id))
}
