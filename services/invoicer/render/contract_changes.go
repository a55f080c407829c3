package render

import (
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
)

// ContractChanges tells in words what a contract has other than the one before, clause by clause, whether it closes a stub, and what of
// it an amendment must not change; refused is what a register would say, or "".
func ContractChanges(changes []contract.Change, refused string, o Options) string {
	p := &page{colour: o.Colour}
	if len(changes) == 0 {
		p.paragraph(plain, o.say("The two contracts say the same."), room(o.Width))
		return p.String()
	}
	for i, c := range changes {
		if i == 0 || changes[i-1].Clause != c.Clause || changes[i-1].Of != c.Of {
			if i > 0 {
				p.line(plain, "")
			}
			of := clean(c.Of)
			switch c.Clause {
			case "states":
				of = o.word(c.Of)
			case "arrears":
				of = o.provision(c.Of)
			}
			p.paragraph(bold, strings.TrimSpace(o.clause(c.Clause)+" "+of), room(o.Width))
		}
		field, was, is := o.fieldName(c.Field), o.provision(c.Was), o.provision(c.Is)
		switch {
		case c.Clause == "states" && c.Field == "gpu":
			field = "GPU"
		case c.Clause == "states" && c.Field != contract.Order: // the name of a meter
			field = clean(c.Field)
		case c.Field == "windows":
			was, is = o.windows(c.Was), o.windows(c.Is)
		}
		text := o.say("%s: was %s, is %s", field, was, is)
		switch {
		case c.Was == "":
			text = o.say("%s: new, %s", field, is)
		case c.Is == "":
			text = o.say("%s: was %s, is gone", field, was)
		}
		p.pair(0, 0, plain, note{"", text}, room(o.Width))
	}
	if refused == "" && contract.ClosesStub(changes) {
		p.line(plain, "")
		p.paragraph(plain, o.say("Where it takes effect the running period is closed as a stub, unless one begins there; the next one runs from there to its new boundary."), room(o.Width))
	}
	if refused != "" {
		p.line(plain, "")
		p.paragraph(yellow, o.say("An amendment cannot change %s: sign a new contract instead.", o.unamendable(refused)), room(o.Width))
	}
	return p.String()
}

// unamendable is what an amendment cannot change.
func (o Options) unamendable(what string) string {
	if name, ok := strings.CutPrefix(what, "the unit, aggregate or value of meter "); ok {
		return o.say("the unit, aggregate or value of meter %s", clean(name))
	}
	if sku, ok := strings.CutPrefix(what, "of which SKU "); ok {
		return o.say("of which SKU %s is a slice", clean(strings.TrimSuffix(sku, " is a slice")))
	}
	if name, ok := strings.CutPrefix(what, "the unit of add-on "); ok {
		return o.say("the unit of add-on %s", clean(name))
	}
	return o.word(what)
}

// clause is a clause in words: that of packages is named as its heading, for the word alone is a number of them.
func (o Options) clause(name string) string {
	if name == "packages" && o.Language == Chinese {
		return o.say("Package")
	}
	return o.phrase(name)
}

// fieldName is a field in words; that of a tier is its interval.
func (o Options) fieldName(field string) string {
	name, rest, _ := strings.Cut(field, " ")
	if translated := o.word(rest); translated != clean(rest) {
		return o.phrase(name) + " " + translated
	}
	return strings.TrimSpace(o.phrase(name) + " " + o.figures(strings.ReplaceAll(rest, "_", " ")))
}
