package contract

// billBy reads whether all leased seconds bill or only those that a sample proves (page 3b, bill_by: observed).
func (r *reader) billBy(s section, b *Billing) {
	choice := func(text string) (int, error) { return parseChoice(text, BillByNames()) }
	set(r, s, "bill_by", "write leased", choice, func(v int) { b.Observed = v == 1 })
}

// BillByNames lists what may bill, as a contract writes it.
func BillByNames() []string { return []string{"leased", "observed"} }
