package schemas

import _ "embed" // the schema travels inside the binary

//go:embed scenario.schema.json
var scenario string

// Scenario is the JSON Schema of a case file. It refers to the contract's, which stands beside it.
func Scenario() string { return scenario }
