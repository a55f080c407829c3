package tidy

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// clean is a module with nothing to find; each planted file joins it.
func clean() fstest.MapFS {
	m := fstest.MapFS{}
	for _, dir := range []string{"core/x", "platform/x", "services/x"} {
		m[dir+"/doc.go"] = file("// Package x owns x. It does not own y.\npackage x\n")
	}
	return m
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// in puts lines into a function of package x, with one import where given.
func in(imported, body string) string {
	text := "package x\n\n"
	if imported != "" {
		text += fmt.Sprintf("import %s\n\n", imported)
	}
	return text + "func f() {\n" + body + "\n}\n"
}

func TestPlanted(t *testing.T) {
	long := strings.Repeat("\t_ = 1\n", maxFuncLines)
	tests := []struct {
		name, path, text string
		want             []string // "line rule"
	}{
		{"core imports os", "core/x/a.go", in(`"os"`, "os.Exit(1)"), []string{"3 core-import"}},
		{"core imports context", "core/x/a.go", in(`"context"`, "_ = context.TODO"), []string{"3 core-import"}},
		{"core imports sync", "core/x/a.go", in(`"sync"`, "var _ sync.Mutex"), []string{"3 core-import"}},
		{"core imports random numbers", "core/x/a.go", in(`"math/rand/v2"`, "rand.Int()"), []string{"3 core-import"}},
		{"core imports unsafe", "core/x/a.go", in(`"unsafe"`, "_ = unsafe.Pointer(nil)"), []string{"3 core-import"}},
		{"core imports platform", "core/x/a.go", in(`_ "`+modulePath+`/platform/x"`, ""), []string{"3 core-import"}},
		{"core imports a module with a listed prefix", "core/x/a.go", in(`_ "github.com/goccy/go-yaml2"`, ""), []string{"3 core-import"}},
		{"core imports a test module", "core/x/a.go", in(`_ "pgregory.net/rapid"`, ""), []string{"3 core-import"}},
		{"core test imports a foreign module", "core/x/a_test.go", in(`_ "github.com/stretchr/testify"`, ""), []string{"3 core-import"}},
		{"core imports schemas", "core/x/a.go", in(`_ "`+modulePath+`/schemas"`, ""), []string{"3 core-import"}},
		{"core imports by dot", "core/x/a.go", in(`. "time"`, "Now()"), []string{"3 core-import"}},
		{"clock", "core/x/a.go", in(`"time"`, "\ttime.Now()"), []string{"6 core-name"}},
		{"clock under another name", "core/x/a.go", in(`clock "time"`, "\t_ = clock.Since"), []string{"6 core-name"}},
		{"clock in a core test", "core/x/a_test.go", in(`"time"`, "\ttime.Now()"), []string{"6 core-name"}},
		{"zone of the machine", "core/x/a.go", in(`"time"`, `	time.LoadLocation("UTC")`), []string{"6 core-name"}},
		{"output", "core/x/a.go", in(`"fmt"`, "\tfmt.Println()"), []string{"6 core-name"}},
		{"float type", "core/x/a.go", in("", "\tvar _ float64"), []string{"4 core-float"}},
		{"small float type", "core/x/a.go", in("", "\t_ = float32(1)"), []string{"4 core-float"}},
		{"float literal", "core/x/a.go", in("", "\t_ = 1.5"), []string{"4 core-float"}},
		{"float by method", "core/x/a.go", in("", "\td.InexactFloat64()"), []string{"4 core-float"}},
		{"goroutine", "core/x/a.go", in("", "\tgo f()"), []string{"4 core-go"}},
		{"global", "core/x/a.go", "package x\n\nvar a int\n", []string{"3 global"}},
		{"global map without a mark", "platform/x/a.go", "package x\n\nvar (\n\ta = map[int]int{}\n)\n", []string{"4 global"}},
		{"process state in core", "core/x/a.go", "package x\n\n//tidy:process\nvar a int\n", []string{"4 global"}},
		{"a longer mark", "core/x/a.go", "package x\n\n//tidy:constant\nvar a int\n", []string{"4 global"}},
		{"sentinel beside a variable", "core/x/a.go", "package x\n\nimport \"errors\"\n\nvar errA, b = errors.New(\"a\"), 1\n", []string{"5 global", "5 global"}},
		{"long function", "core/x/a.go", in("", long), []string{"3 size"}},
		{"long method in a test", "services/x/a_test.go", "package x\n\nfunc (t) f() {\n" + long + "}\n", []string{"3 size"}},
		{"long file", "services/x/a.go", "package x\n" + strings.Repeat("\n", maxFileLines), []string{"1 size"}},
		{"init", "services/x/a.go", "package x\n\nfunc init() {}\n", []string{"3 init"}},
		{"init in a test", "core/x/a_test.go", "package x\n\nfunc init() {}\n", []string{"3 init"}},
		{"sleep in a test", "services/x/a_test.go", in(`"time"`, "\ttime.Sleep(1)"), []string{"6 sleep"}},
		{"platform imports services", "platform/x/a.go", in(`_ "`+modulePath+`/services/x"`, ""), []string{"3 ring"}},
		{"platform imports the root", "platform/x/a.go", in(`_ "`+modulePath+`"`, ""), []string{"3 ring"}},
		{"services import cmd", "services/x/a_test.go", in(`_ "`+modulePath+`/cmd/gpuhour"`, ""), []string{"3 ring"}},
		{"no package comment", "sim/doc.go", "package sim\n", []string{"1 package"}},
		{"no doc.go", "sim/a.go", "package sim\n", []string{"1 package"}},
		{"a package comment that owns nothing", "sim/doc.go", "// Package sim is the simulator.\npackage sim\n", []string{"1 package"}},
		{"package comment elsewhere", "services/x/a.go", "// Package x again.\npackage x\n", []string{"2 package"}},
		{"function without comment", "core/x/a.go", "package x\n\nfunc F() {}\n", []string{"3 doc"}},
		{"method without comment", "platform/x/a.go", "package x\n\n// T is t.\ntype T int\n\nfunc (*T) F() {}\n", []string{"6 doc"}},
		{"type in a group without comment", "core/x/a.go", "package x\n\n// Types.\ntype (\n\tT int\n)\n", []string{"5 doc"}},
		{"constant without comment", "core/x/a.go", "package x\n\nconst C = 1\n", []string{"3 doc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, find(t, tt.path, tt.text)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	tests := []struct{ name, path, text string }{
		{"instants and durations", "core/x/a.go", in(`"time"`, "\tvar at time.Time\n\t_ = at.Add(time.Second).UTC()")},
		{"a local called time", "core/x/a.go", in("", "\tvar time struct{ Now int }\n\t_ = time.Now")},
		{"exact rationals", "core/x/a.go", in(`"math/big"`, "\t_ = big.NewRat(1, 3)")},
		{"core, decimals and YAML", "core/x/a.go", in("(\n\t_ \""+modulePath+"/core/y\"\n\t_ \"github.com/shopspring/decimal\"\n\t_ \"github.com/goccy/go-yaml/ast\"\n)", "")},
		{"a core test that reads, prints and measures", "core/x/a_test.go", in("(\n\t\"fmt\"\n\t\"os\"\n\n\t_ \""+modulePath+"/schemas\"\n\t_ \"pgregory.net/rapid\"\n)", "\tfmt.Println(os.Args, float64(1))\n\tgo f()")},
		{"the clock outside core", "services/x/a.go", in(`"time"`, "\ttime.Now()")},
		{"sleep outside tests", "services/x/a.go", in(`"time"`, "\ttime.Sleep(1)")},
		{"sentinels", "core/x/a.go", "package x\n\nimport \"errors\"\n\nvar (\n\terrA = errors.New(\"a\")\n\terrB = errors.New(\"b\")\n)\n"},
		{"an expression", "core/x/a.go", "package x\n\nimport \"regexp\"\n\nvar a = regexp.MustCompile(`a`)\n"},
		{"process state", "platform/x/a.go", "package x\n\n// engine is one in a process.\n//\n//tidy:process\nvar engine int\n"},
		{"an interface check", "platform/x/a.go", "package x\n\nvar _ error = t{}\n"},
		{"a marked table", "core/x/a.go", "package x\n\n// digits are by currency.\n//\n//tidy:const\nvar digits = map[string]int{}\n"},
		{"an embedded file", "core/x/a.go", "package x\n\nimport _ \"embed\"\n\n//go:embed zones.zip\nvar zones []byte\n"},
		{"globals in a test", "core/x/a_test.go", "package x\n\nvar rewrite = false\n"},
		{"a function of the longest size", "core/x/a.go", in("", strings.Repeat("\t_ = 1\n", maxFuncLines-3)+"\t_ = 2")},
		{"generated code", "core/x/a.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage x\n\nfunc init() {}\n"},
		{"another module", "other/a.go", "package other\n\nfunc init() {}\n"},
		{"testdata", "core/x/testdata/a.go", "package other\n\nfunc init() {}\n"},
		{"a method init", "core/x/a.go", "package x\n\nfunc (t) init() {}\n"},
		{"methods of known interfaces and of hidden types", "core/x/a.go", "package x\n\n// T is t.\ntype T int\n\nfunc (T) String() string { return \"\" }\n\ntype u int\n\nfunc (u) F() {}\n"},
		{"a commented group of constants", "core/x/a.go", "package x\n\n// States.\nconst (\n\tA = iota\n\tB\n)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := find(t, tt.path, tt.text); len(got) > 0 {
				t.Errorf("found %q in allowed text", got)
			}
		})
	}
}

// find plants one file into the clean module and returns "line rule" for each
// finding; a finding in another file is an error.
func find(t *testing.T, path, text string) []string {
	t.Helper()
	m := clean()
	m["other/go.mod"] = file("module other\n")
	m[path] = file(text)
	files, err := load(m)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range check(files) {
		if f.path != path && f.rule != "package" {
			t.Errorf("finding in a file that was not planted: %s", f)
		}
		got = append(got, fmt.Sprintf("%d %s", f.line, f.rule))
	}
	return got
}

func TestBrokenSource(t *testing.T) {
	m := clean()
	m["core/x/a.go"] = file("package x\n\nfunc {\n")
	if _, err := load(m); err == nil || !strings.Contains(err.Error(), "core/x/a.go:3") {
		t.Errorf("load of a file that does not parse: %v, want an error with its place", err)
	}
}
