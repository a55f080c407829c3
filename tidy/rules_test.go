package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	maxFuncLines = 70
	maxFileLines = 500
)

// coreStd are the standard packages that core may import: none opens a file or a
// socket, reads a clock, starts a goroutine or draws a random number. io and
// io/fs are there for their interfaces, embed and archive/zip for the zone rules
// that are compiled in.
var coreStd = strings.Fields(`archive/zip bytes cmp crypto/ed25519 crypto/hmac crypto/sha256 embed encoding encoding/base32 encoding/base64
	encoding/binary encoding/hex encoding/json errors fmt hash hash/crc32 hash/fnv io io/fs iter maps math math/big
	math/bits path regexp slices sort strconv strings text/tabwriter time unicode unicode/utf8`)

// coreModules are the other modules that core may import, and coreTestModules
// what its tests may import beside them and the whole standard library.
var (
	coreModules     = []string{modulePath + "/core", "github.com/shopspring/decimal", "github.com/goccy/go-yaml"}
	coreTestModules = []string{modulePath + "/schemas", "pgregory.net/rapid", "github.com/google/go-cmp"}
)

// coreBanned are names of allowed packages that break what the package list
// promises.
var coreBanned = map[string]map[string]string{
	"time": {
		"Now": clock, "Since": clock, "Until": clock, "Sleep": clock, "After": clock, "AfterFunc": clock, "Tick": clock,
		"NewTimer": clock, "NewTicker": clock, "LoadLocation": zones, "Local": zones,
	},
	"crypto/ed25519": {"GenerateKey": "draws a random number; take the key as an argument"},
	"fmt": {
		"Print": prints, "Printf": prints, "Println": prints, "Scan": prints, "Scanf": prints, "Scanln": prints,
	},
}

const (
	clock  = "reads the clock; take the instant as an argument"
	zones  = "depends on the machine's zones; use core/calendar"
	prints = "is input or output; return the text"
	floats = "is a float; use integers with a unit, or an exact rational"
)

// floatNames turn exact numbers into floats or back, whatever they are called on.
var floatNames = strings.Fields(`Float32 Float64 InexactFloat64 NewFromFloat NewFromFloat32 NewFloat SetFloat64 ParseFloat
	FormatFloat AppendFloat Float32bits Float64bits Float64frombits`)

// inward says which folders of this module a ring must not import.
var inward = map[string][]string{
	"platform": {"", "cmd", "services", "sim"},
	"services": {"", "cmd", "sim"},
}

// report takes one finding at a node.
type report func(at ast.Node, rule, format string, args ...any)

// check runs every rule over every file.
func check(files []*source) []finding {
	var found []finding
	for _, s := range files {
		say := func(at ast.Node, rule, format string, args ...any) {
			found = append(found, finding{s.path, s.line(at), rule, fmt.Sprintf(format, args...)})
		}
		checkSizes(s, say)
		checkInward(s, say)
		if s.isTest() {
			checkSleep(s, say)
		}
		if s.in("core") {
			checkCoreImports(s, say)
			ast.Inspect(s.ast, func(n ast.Node) bool { checkCoreNode(s, n, say); return true })
		}
		if !s.isTest() {
			checkGlobals(s, say)
		}
		if !s.isTest() && s.in("core", "platform", ".") {
			checkDocs(s, say)
		}
	}
	return append(found, checkPackages(files)...)
}

func checkSizes(s *source, say report) {
	if s.lines > maxFileLines {
		say(s.ast, "size", "%d lines in one file, at most %d", s.lines, maxFileLines)
	}
	for _, decl := range s.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if fn.Recv == nil && fn.Name.Name == "init" {
			say(fn, "init", "no func init: wire by hand")
		}
		if n := s.fset.Position(fn.End()).Line - s.line(fn) + 1; n > maxFuncLines {
			say(fn, "size", "%s has %d lines, at most %d", fn.Name.Name, n, maxFuncLines)
		}
	}
}

func checkInward(s *source, say report) {
	top, _, _ := strings.Cut(s.path, "/")
	for _, spec := range s.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		rest, ours := strings.CutPrefix(p, modulePath)
		to, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if ours && slices.Contains(inward[top], to) {
			say(spec, "ring", "%s must not import %s: imports point inwards", top, p)
		}
	}
}

func checkSleep(s *source, say report) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && s.imported(sel) == "time" && sel.Sel.Name == "Sleep" {
			say(sel, "sleep", "no time.Sleep in a test: wait for the event itself")
		}
		return true
	})
}

func checkCoreImports(s *source, say report) {
	for _, spec := range s.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		std := !strings.Contains(strings.Split(p, "/")[0], ".")
		ok := slices.Contains(coreStd, p) || std && s.isTest() || within(p, coreModules) || s.isTest() && within(p, coreTestModules)
		if !ok {
			say(spec, "core-import", "core must not import %s", p)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			say(spec, "core-import", "no dot import of %s: it hides where a name comes from", p)
		}
	}
}

func within(p string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return p == m || strings.HasPrefix(p, m+"/") })
}

// checkCoreNode holds clock, output, floats and goroutines out of core. Tests of
// core keep away from the clock too, but may print, measure and start goroutines.
func checkCoreNode(s *source, n ast.Node, say report) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		from := s.imported(n)
		if why, bad := coreBanned[from][n.Sel.Name]; bad && (from == "time" || !s.isTest()) {
			say(n, "core-name", "%s.%s %s", from, n.Sel.Name, why)
		}
		if slices.Contains(floatNames, n.Sel.Name) && !s.isTest() {
			say(n, "core-float", "%s %s", n.Sel.Name, floats)
		}
	case *ast.Ident:
		if slices.Contains([]string{"float32", "float64", "complex64", "complex128"}, n.Name) && !s.isTest() {
			say(n, "core-float", "%s %s", n.Name, floats)
		}
	case *ast.BasicLit:
		if (n.Kind == token.FLOAT || n.Kind == token.IMAG) && !s.isTest() {
			say(n, "core-float", "%s %s", n.Value, floats)
		}
	case *ast.GoStmt:
		if !s.isTest() {
			say(n, "core-go", "core starts no goroutine")
		}
	}
}

// checkGlobals allows package variables that never change: a blank one, an error
// or expression made once, an embedded file, and a table whose author says so
// with //tidy:const. Outside core, //tidy:process marks what the operating system
// itself has once in a process.
func checkGlobals(s *source, say report) {
	for _, decl := range s.ast.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if marked(s, gen.Doc) || marked(s, v.Doc) || marked(s, v.Comment) || madeOnce(s, v) {
				continue
			}
			for _, name := range v.Names {
				if name.Name != "_" {
					say(name, "global", "%s is a package variable: pass it, or mark a table that never changes with //tidy:const", name.Name)
				}
			}
		}
	}
}

func marked(s *source, doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		mark, _, _ := strings.Cut(c.Text, " ")
		return mark == "//go:embed" || mark == "//tidy:const" || mark == "//tidy:process" && !s.in("core")
	})
}

func madeOnce(s *source, v *ast.ValueSpec) bool {
	return len(v.Values) > 0 && !slices.ContainsFunc(v.Values, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		return !ok || !slices.Contains([]string{"errors.New", "regexp.MustCompile"}, s.imported(sel)+"."+sel.Sel.Name)
	})
}

// interfaceMethods say what their interface says, so they need no comment.
var interfaceMethods = strings.Fields(`Error Unwrap Is String GoString Format Len Less Swap Close Read Write ServeHTTP RoundTrip
	MarshalJSON UnmarshalJSON MarshalText UnmarshalText MarshalYAML UnmarshalYAML`)

func checkDocs(s *source, say report) {
	undocumented := func(at ast.Node, name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(g *ast.CommentGroup) bool { return g.Text() != "" }) {
			say(at, "doc", "%s is exported and has no comment", name.Name)
		}
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(interfaceMethods, d.Name.Name) {
				undocumented(d, d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch v := spec.(type) {
				case *ast.TypeSpec:
					undocumented(v, v.Name, v.Doc, v.Comment, unless(d.Lparen.IsValid(), d.Doc))
				case *ast.ValueSpec:
					undocumented(v, v.Names[0], v.Doc, v.Comment, d.Doc)
				}
			}
		}
	}
}

func unless(grouped bool, doc *ast.CommentGroup) *ast.CommentGroup {
	if grouped {
		return nil
	}
	return doc
}

// receiver is the name of the type a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkPackages wants a doc.go in every package, whose comment says what the
// package owns, and a package comment nowhere else. What a package does not own
// can be said in too many ways to be matched.
func checkPackages(files []*source) []finding {
	says := map[string]string{} // folder -> the package comment of its doc.go
	var found []finding
	for _, s := range files {
		dir, comment := path.Dir(s.path), s.ast.Doc.Text()
		if path.Base(s.path) == "doc.go" {
			says[dir] = comment
			continue
		}
		says[dir] += "" // the package exists
		if comment != "" && !s.isTest() {
			found = append(found, finding{s.path, s.line(s.ast), "package", "the package comment belongs into doc.go"})
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(says)) {
		if !strings.Contains(says[dir], "owns") {
			found = append(found, finding{path.Join(dir, "doc.go"), 1, "package", "has to say what the package owns and what it does not"})
		}
	}
	return found
}
