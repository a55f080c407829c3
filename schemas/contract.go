package schemas

import _ "embed" // the schema travels inside the binary

//go:embed contract.schema.json
var contract string

// Contract is the JSON Schema of a contract file: what this version of the contract language reads.
func Contract() string { return contract }
