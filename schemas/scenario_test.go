package schemas_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/schemas"
)

// TestScenarioSchemaAgreesWithTheReader: what the reader accepts is valid by the schema: every case file, and files with one thing
// changed. The reader refuses more: what hangs on other parts of the file.
func TestScenarioSchemaAgreesWithTheReader(t *testing.T) {
	schema := compiled(t, "scenario.schema.json")
	names := cases.List()
	accepted, invalid := 0, 0
	for seed := range 8 * len(names) {
		name := names[seed%len(names)]
		data, err := cases.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if seed >= len(names) { // the first round is the files as they are
			text = changed(t, text, rand.New(rand.NewPCG(uint64(seed), 0)).IntN)
		}
		_, refused := scenario.Parse(name, []byte(text))
		v, err := value(text)
		if err == nil {
			err = schema.Validate(v)
		}
		if refused == nil {
			accepted++
		}
		if err != nil {
			invalid++
		}
		if refused == nil && err != nil {
			t.Errorf("%s, seed %d: the reader accepts, the schema does not: %v\n%s", name, seed, err, text)
		}
		if seed < len(names) && refused != nil {
			t.Error(refused)
		}
	}
	if accepted < 2*len(names) || invalid < len(names) {
		t.Errorf("%d accepted and %d invalid: too few to tell", accepted, invalid)
	}
}

// changed is a file in which one node is left out, has another name, another node's value or one of some words.
func changed(t *testing.T, text string, pick func(int) int) string {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	var parents []*yaml.Node
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		if len(n.Content) > 0 && n.Kind != yaml.DocumentNode {
			parents = append(parents, n)
		}
		for _, below := range n.Content {
			walk(below)
		}
	}
	walk(&document)
	n := parents[pick(len(parents))]
	at := pick(len(n.Content))
	if n.Kind == yaml.MappingNode {
		at -= at % 2
	}
	width := map[yaml.Kind]int{yaml.MappingNode: 2, yaml.SequenceNode: 1}[n.Kind]
	value := at + width - 1
	words := []string{"0", "1", "-1", "true", "none", "2026-01", "2026-01-10T08:30:00Z", "1 gpu-hour", "3.60", "3.60 USD", "1h", "customer", ""}
	switch pick(4) {
	case 0:
		n.Content = slices.Delete(n.Content, at, at+width)
	case 1:
		n.Content[at] = &yaml.Node{Kind: yaml.ScalarNode, Value: "other"}
	case 2:
		other := parents[pick(len(parents))]
		if last := other.Content[len(other.Content)-1]; last.Kind == yaml.ScalarNode {
			n.Content[value] = last
		}
	default:
		n.Content[value] = &yaml.Node{Kind: yaml.ScalarNode, Value: words[pick(len(words))]}
	}
	out, err := yaml.Marshal(&document)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// object is a part of the schema.
type object struct {
	Properties           map[string]object `json:"properties"`
	Items                *object           `json:"items"`
	Defs                 map[string]object `json:"$defs"`
	AdditionalProperties any               `json:"additionalProperties"`
}

// TestScenarioSchemaNamesEveryField: the reader names the fields it knows to whoever writes another; the schema has the same.
func TestScenarioSchemaNamesEveryField(t *testing.T) {
	var schema object
	if err := json.Unmarshal([]byte(schemas.Scenario()), &schema); err != nil {
		t.Fatal(err)
	}
	defs := schema.Defs
	expected := defs["expectation"]
	const contract = "contracts: [{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: 2027-01-01}, rates: [{sku: a, on_demand: 1/gpu-hour}]}]\n"
	const line = contract + "expect: [{contract: c1, period: 2026-01, lines: [%s]}]"
	places := map[string]object{ // of a field that does not exist
		"xyzzyx: 1": schema,
		"events: [{xyzzyx: 1, at: 2026-01-01T00:00:00Z}]": defs["statement"],
		"events: [{samples: {}, xyzzyx: 1}]":              defs["samples"],
		"events: [{samples: {xyzzyx: 1}}]":                defs["samples"].Properties["samples"],
		"events: [{samples: {node: n, device: d, util: 1, missing: [{xyzzyx: 1}]}, from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}]": *defs["samples"].Properties["samples"].Properties["missing"].Items,
		"events: [{at: 2026-01-01T00:00:00Z, lease_started: {devices: [{xyzzyx: 1}]}}]":                                                    *defs["devices"].Items,
		contract + "close: [{xyzzyx: 1}]":                                              *schema.Properties["close"].Items,
		contract + "expect: [{xyzzyx: 1}]":                                             expected,
		contract + "expect: [{contract: c1, period: 2026-01, refused: [{xyzzyx: 1}]}]": *defs["unbilled"].Items,
		fmt.Sprintf(line, "{xyzzyx: 1}"):                                               defs["line"],
		fmt.Sprintf(line, "{coverage: {xyzzyx: 1}}"):                                   defs["line"].Properties["coverage"],
		fmt.Sprintf(line, "{rows: [{xyzzyx: 1}]}"):                                     *defs["line"].Properties["rows"].Items,
		contract + "refusals: [{xyzzyx: 1}]":                                           *schema.Properties["refusals"].Items,
		contract + "devices: [{xyzzyx: 1}]":                                            *schema.Properties["devices"].Items,
	}
	for field, statement := range defs["statement"].Properties {
		if statement.Properties != nil {
			places["events: [{at: 2026-01-01T00:00:00Z, "+field+": {xyzzyx: 1}}]"] = statement
		}
	}
	for text, want := range places {
		_, err := scenario.Parse("x.yaml", []byte("story: s\n"+text+"\n"))
		_, list, found := strings.Cut(fmt.Sprint(err), `unknown field "xyzzyx"; remove it; known here: `)
		list, _, _ = strings.Cut(list, "\n")
		fields := strings.Split(list, ", ")
		slices.Sort(fields)
		if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(want.Properties))); !found || diff != "" {
			t.Errorf("%s: %v\n(-reader +schema)\n%s", text, err, diff)
		}
		if want.AdditionalProperties != false {
			t.Errorf("%s: the schema lets unknown fields through", text)
		}
	}
}
