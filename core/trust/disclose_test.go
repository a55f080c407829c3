package trust_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

func disclosed(t testing.TB) (*trust.Disclosure, []byte) {
	t.Helper()
	d, err := trust.Disclose(signed(t, "n", 1), "GPU-1", public(1))
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return d, data
}

func TestDisclosureChecks(t *testing.T) {
	d, data := disclosed(t)
	read, err := trust.ParseDisclosure(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, read); diff != "" {
		t.Fatal(diff)
	}
	block, err := read.Check()
	if err != nil {
		t.Fatal(err)
	}
	if block.Device != "GPU-1" || block.Busy[9] != 19 || block.Seen != 0x3f7 {
		t.Errorf("it says %+v", block)
	}
	if strings.Contains(string(data), string(signed(t, "n", 1).Seed)) {
		t.Error("the seed is in the file: all blocks can be guessed")
	}
}

// TestEveryChangeOfADisclosureIsFound changes each field of the file, found by reflection so that none can be forgotten.
func TestEveryChangeOfADisclosureIsFound(t *testing.T) {
	_, data := disclosed(t)
	var paths []string
	var walk func(v reflect.Value, path string, visit func(reflect.Value, string))
	walk = func(v reflect.Value, path string, visit func(reflect.Value, string)) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem(), path, visit)
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), path+"[]", visit)
			}
			if v.Kind() == reflect.Slice && v.Len() > 0 {
				visit(v, path+"[less]")
			}
		default:
			visit(v, path)
		}
	}
	count := func() (n int) {
		d, err := trust.ParseDisclosure(data)
		if err != nil {
			t.Fatal(err)
		}
		walk(reflect.ValueOf(d), "", func(_ reflect.Value, path string) { n++; paths = append(paths, path) })
		return n
	}()
	reasons := map[string]int{}
	for k := range count {
		d, err := trust.ParseDisclosure(data)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		walk(reflect.ValueOf(d), "", func(v reflect.Value, _ string) {
			if n == k {
				change(v)
			}
			n++
		})
		changed, err := d.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		read, err := trust.ParseDisclosure(changed)
		if err == nil {
			_, err = read.Check()
		}
		if err == nil {
			t.Errorf("a change of %s is not found", paths[k])
			continue
		}
		reasons[strings.SplitN(err.Error(), ":", 2)[0]]++
	}
	t.Logf("%d changes, each found: %v", count, reasons)
	if d, err := trust.ParseDisclosure(data); err != nil {
		t.Fatal(err)
	} else {
		d.Topology = nil
		if _, err := d.Check(); err == nil {
			t.Error("a topology that is left out is not found")
		}
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1)
	case reflect.Slice:
		v.Set(v.Slice(0, v.Len()-1))
	default:
		panic("no change for a " + v.Kind().String())
	}
}

func TestDisclosureRefused(t *testing.T) {
	_, data := disclosed(t)
	text := string(data)
	for name, c := range map[string]struct{ file, want string }{
		"no JSON":       {"hello", "it is no disclosure of a block"},
		"other JSON":    {`{"format":"x"}`, "its format is \"x\""},
		"unknown name":  {strings.Replace(text, `"node"`, `"nodes"`, 1), `unknown field "nodes"`},
		"name twice":    {strings.Replace(text, `"boot"`, "\"node\": \"m\",\n  \"boot\"", 1), "somebody edited it"},
		"two of them":   {text + text, "something follows the JSON object"},
		"written close": {strings.ReplaceAll(text, "\n", ""), "somebody edited it"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trust.ParseDisclosure([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
	if _, err := trust.Disclose(batch("n"), "GPU-0", public(1)); err == nil || !strings.Contains(err.Error(), "is not signed") {
		t.Errorf("an unsigned batch: %v", err)
	}
	if _, err := trust.Disclose(signed(t, "n", 1), "GPU-7", public(1)); err == nil || !strings.Contains(err.Error(), `no device "GPU-7"; it holds ["GPU-0" "GPU-1"]`) {
		t.Errorf("another device: %v", err)
	}
	beyond := batch("n")
	beyond.Spoken = 1
	if err := trust.Sign(key(1), beyond); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Disclose(beyond, "GPU-0", public(1)); err == nil || !strings.Contains(err.Error(), "seconds 0x3f6, which the batch does not speak for") {
		t.Errorf("values beyond what was spoken for: %v", err)
	}
	if _, err := trust.Disclose(signed(t, "n", 1), "GPU-0", public(2)); err == nil || !strings.Contains(err.Error(), "the signature does not hold") {
		t.Errorf("another key: %v", err)
	}
}

// TestHashesHideOtherBlocks: who is shown one block and guesses another one exactly cannot confirm the guess.
func TestHashesHideOtherBlocks(t *testing.T) {
	b := signed(t, "n", 1)
	d, err := trust.Disclose(b, "GPU-1", public(1))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		guess := *d
		guess.Place, guess.Device, guess.Block = 0, "GPU-0", b.Blocks[0]
		if rapid.Bool().Draw(t, "another salt") {
			guess.Salt = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "salt")
		}
		if _, err := guess.Check(); err == nil {
			t.Fatal("the guess is confirmed")
		}
	})
}

// TestSaltEndsWhereTheBlockBegins: salt and block are hashed side by side, and a device's name may end like the head of another block.
func TestSaltEndsWhereTheBlockBegins(t *testing.T) {
	const version, length = "\x01", "\x01"
	block := usage.Block{Device: "x" + version + length + "y", Seen: 1}
	b := batch("n")
	b.Blocks = [][]byte{block.Append(nil)}
	if err := trust.Sign(key(1), b); err != nil {
		t.Fatal(err)
	}
	d, err := trust.Disclose(b, block.Device, public(1))
	if err != nil {
		t.Fatal(err)
	}
	const before = len(version) + len(length) + len("x")
	d.Salt, d.Block, d.Device = append(d.Salt, d.Block[:before]...), d.Block[before:], "y"
	if err := new(usage.Block).Decode(d.Block); err != nil {
		t.Fatal("what is left is no block, and shows nothing: ", err)
	}
	if _, err := d.Check(); err == nil || !strings.Contains(err.Error(), "the salt has 35 bytes, not 32") {
		t.Errorf("shown as device y, of which the node never spoke: %v", err)
	}
}

// FuzzParseDisclosure: a file has one form, and none that holds says what the key did not sign. It signs two batches here: salts are drawn
// anew in every process, so what is compared is head and block.
func FuzzParseDisclosure(f *testing.F) {
	short := batch("n")
	short.Seq, short.PreviousRun, short.PreviousSeq, short.Gaps, short.Topology = 2, 0, 0, nil, nil
	var stated []*trust.Disclosure
	for _, b := range []*usage.Batch{batch("n"), short} {
		if err := trust.Sign(key(1), b); err != nil {
			f.Fatal(err)
		}
		d, err := trust.Disclose(b, "GPU-1", public(1))
		if err != nil {
			f.Fatal(err)
		}
		data, err := d.Bytes()
		if err != nil {
			f.Fatal(err)
		}
		stated = append(stated, d)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := trust.ParseDisclosure(data)
		if err != nil {
			return
		}
		again, err := read.Bytes()
		if err != nil || !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(again)) {
			t.Fatalf("%s is written as %s, %v", data, again, err)
		}
		if _, err := read.Check(); err != nil || read.PublicKey != public(1) {
			return
		}
		for _, d := range stated {
			if bytes.Equal(d.Block, read.Block) && cmp.Equal(d.Head(), read.Head(), cmpopts.EquateEmpty()) {
				return
			}
		}
		t.Errorf("the key is said to have signed %s", data)
	})
}
