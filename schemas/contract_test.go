package schemas_test

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	_ "pgregory.net/rapid" // its flag says how much is drawn

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/schemas"
)

// compiled is one of the schemas; they may refer to each other.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for file, text := range map[string]string{"contract.schema.json": schemas.Contract(), "scenario.schema.json": schemas.Scenario()} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(file, document); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// value is what a schema sees of a document, by another YAML parser than the reader's.
func value(text string) (any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	return valueOf(&document), nil
}

func valueOf(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return valueOf(n.Content[0])
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			out[n.Content[i].Value] = valueOf(n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i] = valueOf(item)
		}
		return out
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		var number any
		if err := n.Decode(&number); err != nil || strings.Contains(strings.ToLower(n.Value), "n") { // NaN, infinity
			return n.Value
		}
		return number
	case "!!bool":
		return n.Value == "true"
	case "!!null":
		return nil
	default:
		return n.Value
	}
}

// TestSchemaAgreesWithTheReader: what the reader accepts is valid by the schema, so what the schema refuses, the reader refuses too.
// The reader refuses more: what hangs on other parts of the contract.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	schema := compiled(t, "contract.schema.json")
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(20 * checks) // 2,000, and 10,000 with -rapid.checks=500
	accepted, invalid := 0, 0
	for seed := range seeds {
		for name, text := range map[string]string{
			"drawn":  random.Contract(rand.New(rand.NewPCG(seed, 0)).IntN),
			"broken": random.Broken(rand.New(rand.NewPCG(seed, 1)).IntN),
		} {
			_, refused := contract.Parse("c.yaml", []byte(text))
			if refused == nil {
				accepted++
			}
			v, err := value(text)
			if err == nil {
				err = schema.Validate(v)
			}
			if err != nil {
				invalid++
			}
			if refused == nil && err != nil {
				t.Fatalf("seed %d, %s: the reader accepts, the schema does not: %v\n%s", seed, name, err, text)
			}
		}
	}
	if accepted < int(seeds) || invalid < int(seeds)/3 {
		t.Errorf("%d accepted and %d invalid of %d: too few to tell", accepted, invalid, 2*seeds)
	}
}

// TestSchemaDescribesEveryField: an editor shows what a field means while it is written.
func TestSchemaDescribesEveryField(t *testing.T) {
	for _, text := range []string{schemas.Contract(), schemas.Scenario()} {
		var schema map[string]any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		describesEveryField(t, schema)
	}
}

func describesEveryField(t *testing.T, schema map[string]any) {
	t.Helper()
	defs, _ := schema["$defs"].(map[string]any)
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		properties, _ := node["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			field, _ := properties[name].(map[string]any)
			ref, _ := field["$ref"].(string)
			def, _ := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			if field["description"] == nil && def["description"] == nil {
				t.Errorf("%s.%s has no description", path, name)
			}
			walk(path+"."+name, field)
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(path+"[]", items)
		}
		for _, one := range slices.Concat(anyList(node["anyOf"]), anyList(node["oneOf"])) {
			if branch, ok := one.(map[string]any); ok && branch["type"] == "object" {
				walk(path, branch)
			}
		}
	}
	walk("", schema)
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if def, ok := defs[name].(map[string]any); ok {
			walk(name, def)
		}
	}
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}
