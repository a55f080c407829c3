package contract

import "slices"

// clause is a part of the language that a contract may leave out. Each is read in a file of its own. One that has no reader
// belongs to the language and not to this version: it is refused, because leaving it out would change the bill.
type clause[T any] struct {
	name string
	read func(r *reader, s section, into *T)
}

// rootClauses stand in the order in which they are read: a later one may look at what an earlier one read.
func rootClauses() []clause[Contract] {
	return []clause[Contract]{
		{"trial", (*reader).trial},
		{"packages", (*reader).packages},
		{"schedule", (*reader).schedule},
		{"idle_relief", (*reader).idleRelief},
		{"meters", (*reader).meters},
		{"bundles", (*reader).bundles},
		{"addons", (*reader).addons},
		{"commitment", (*reader).commitment},
		{"limits", (*reader).limits},
		{"states", (*reader).states},
		{"termination", (*reader).termination},
		{"arrears", (*reader).arrears},
		{"sla", nil},
		{"renewal", nil},
		{"release_guard", nil},
		{"utilization_guarantee", nil},
		{"prepaid", nil},
		{"tax", nil},
	}
}

func rateClauses() []clause[Rate] {
	return []clause[Rate]{
		{"slice_of", (*reader).sliceOf},
		{"region", (*reader).region},
		{"service_tier", (*reader).serviceTier},
		{"dedicated", (*reader).dedicated},
		{"reserved", (*reader).reserved},
		{"spot", (*reader).spot},
		{"forward", (*reader).forward},
		{"cap", (*reader).limit},
		{"volume", (*reader).volume},
	}
}

func billingClauses() []clause[Billing] {
	return []clause[Billing]{{"bill_by", (*reader).billBy}, {"fee_month", (*reader).feeMonth}}
}

// fields splits a mapping's clauses into those that are known besides the given ones and those that are refused.
func fields[T any](base []string, clauses []clause[T]) (known, unsupported []string) {
	known = slices.Clone(base)
	for _, c := range clauses {
		if c.read == nil {
			unsupported = append(unsupported, c.name)
		} else {
			known = append(known, c.name)
		}
	}
	return known, unsupported
}

// clauses reads those that are stated.
func clauses[T any](r *reader, s section, list []clause[T], into *T) {
	for _, c := range list {
		if _, stated := s.values[c.name]; stated {
			c.read(r, s, into)
		}
	}
}
