package bill

import "math/big"

// ItemKind is what a line without GPU time is for.
type ItemKind string

// Item is the quantity of a line that is not GPU time, and how its amount came about.
type Item struct {
	Quantity *big.Rat
	Unit     string   // GB, month ...; empty for a sum of money
	Steps    []string // the factors in order, as a bill shows them: "0.80/GB", "31 of 31 days"
	Inputs   []Input  // what it stands on; nil but in Explain
}

// item adds a line that is not GPU time.
func (c *pricing) item(key LineKey, item Item, exact *big.Rat) {
	c.Lines = append(c.Lines, Line{Key: key, Standing: "priced", Item: &item, Exact: exact})
}
