package demo

import (
	"bytes"
	_ "embed" // the sample contract is shown to the user as a file
	"fmt"
	"text/template"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

//go:embed contract.yaml.tmpl
var contractText string

// Contracts are the four customers' contracts: one text, filled in.
func Contracts(minimum string) ([]fact.Fact, error) {
	t, err := template.New("contract").Parse(contractText)
	if err != nil {
		return nil, fmt.Errorf("read the sample contract: %w", err)
	}
	var out []fact.Fact
	for _, customer := range openb.Customers() {
		var text bytes.Buffer
		if err := t.Execute(&text, map[string]string{"Customer": customer, "SKU": openb.SKU, "Minimum": minimum}); err != nil {
			return nil, fmt.Errorf("fill in the sample contract: %w", err)
		}
		id := customer + "-2026"
		if _, err := contract.Parse("the demo's contract", text.Bytes()); err != nil {
			return nil, err
		}
		body := &fact.ContractSigned{Contract: id, Customer: customer, Document: text.String()}
		out = append(out, fact.Fact{Key: "contract/" + id, Hash: fact.HashJSON(body), Body: body})
	}
	return out, nil
}
