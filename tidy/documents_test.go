package tidy

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// checkedDocuments may name only what exists. A reader follows their paths.
var checkedDocuments = []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "STYLE.md"}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```")
	quote = regexp.MustCompile("`[^`\n]+`")
	link  = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

	// named is `path: Symbol`, `path#Symbol` or a path alone. A path has a slash
	// or one of the file endings of this repository.
	named = regexp.MustCompile(`^([^\s:#]+)(?:(?:: ?|#)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?))?$`)
	ended = regexp.MustCompile(`\w\.(go|md|mod|sum|work|proto|sql|ya?ml|json|csv|txt|sh|zip|binpb)$`)
	// qualified is `package.Symbol`, checked when a package here has that name.
	qualified = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)(?:\(\))?$`)
)

// TestDocuments follows every path and symbol that the documents quote.
func TestDocuments(t *testing.T) {
	fsys := os.DirFS("..")
	files, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range checkedDocuments {
		text, err := fs.ReadFile(fsys, doc)
		if err != nil {
			t.Errorf("read %s: %v", doc, err)
			continue
		}
		broken, followed := follow(fsys, files, string(text))
		if doc == "ARCHITECTURE.md" && followed < 10 {
			t.Errorf("%s quotes only %d paths and symbols: it has to lead the reader into the code", doc, followed)
		}
		for _, b := range broken {
			t.Errorf("%s: %s", doc, b)
		}
	}
}

// follow returns what a document quotes or links to and does not exist, and how
// many quotes it followed. Words in `code` that are neither paths nor
// package.Symbol are not claims about this tree; fenced blocks are not read.
func follow(fsys fs.FS, files []*source, text string) (broken []string, followed int) {
	text = fence.ReplaceAllString(text, "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if _, err := fs.Stat(fsys, path.Clean(m[1])); err != nil && !strings.Contains(m[1], "://") {
			broken = append(broken, "no file for the link "+m[1])
		}
	}
	for _, q := range quote.FindAllString(text, -1) {
		q = strings.Trim(q, "`")
		if strings.HasPrefix(q, "//") {
			continue // a directive
		}
		if m := named.FindStringSubmatch(q); m != nil && (strings.Contains(m[1], "/") || ended.MatchString(m[1])) {
			followed++
			if err := resolve(fsys, files, m[1], m[2]); err != nil {
				broken = append(broken, err.Error())
			}
		} else if m := qualified.FindStringSubmatch(q); m != nil {
			in := filesOf(files, m[1])
			if len(in) == 0 {
				continue // a package of another module
			}
			followed++
			if !declares(in, m[2]) {
				broken = append(broken, fmt.Sprintf("no %s in package %s", m[2], m[1]))
			}
		}
	}
	return broken, followed
}

// resolve finds a path and, where given, a symbol declared in that file or
// directly in that folder. In a file that is not Go the symbol is a word.
func resolve(fsys fs.FS, files []*source, p, symbol string) error {
	p = path.Clean(p)
	if _, err := fs.Stat(fsys, p); err != nil {
		return fmt.Errorf("no file or folder %s", p)
	}
	in := slices.DeleteFunc(slices.Clone(files), func(s *source) bool { return s.path != p && path.Dir(s.path) != p })
	if symbol == "" || declares(in, symbol) {
		return nil
	}
	if text, err := fs.ReadFile(fsys, p); err == nil && path.Ext(p) != ".go" {
		if regexp.MustCompile(`\b` + regexp.QuoteMeta(symbol) + `\b`).Match(text) {
			return nil
		}
	}
	return fmt.Errorf("no %s in %s", symbol, p)
}

func filesOf(files []*source, pkg string) []*source {
	return slices.DeleteFunc(slices.Clone(files), func(s *source) bool { return s.isTest() || s.ast.Name.Name != pkg })
}

// declares looks for a top-level name, or Type.Method, Type.Field.
func declares(files []*source, symbol string) bool {
	return slices.ContainsFunc(files, func(s *source) bool {
		return slices.ContainsFunc(s.ast.Decls, func(d ast.Decl) bool { return slices.Contains(names(d), symbol) })
	})
}

func names(decl ast.Decl) (all []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d) + "." + name
		}
		return []string{name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch v := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range v.Names {
					all = append(all, n.Name)
				}
			case *ast.TypeSpec:
				all = append(all, v.Name.Name)
				for _, member := range members(v.Type) {
					all = append(all, v.Name.Name+"."+member)
				}
			}
		}
	}
	return all
}

func members(t ast.Expr) (all []string) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			all = append(all, n.Name)
		}
	}
	return all
}

func TestFollow(t *testing.T) {
	m := fstest.MapFS{
		"core/x/x.go":        file("package x\n\ntype T struct{ F int }\n\nfunc (t *T) M() {}\n\nfunc New() {}\n\ntype P interface{ Put() }\n\nconst A, B = 1, 2\n"),
		"core/x/x_test.go":   file("package x\n\nfunc TestX() {}\n"),
		"proto/a/v1/a.proto": file("message Batch {}\n"),
		"Makefile":           file(""),
	}
	files, err := load(m)
	if err != nil {
		t.Fatal(err)
	}
	good := "`core/x` `core/x/` `core/x/x.go` `core/x/x.go: New` `core/x#T.M` `core/x: T.F` `core/x:P.Put` `core/x/x.go#B` `//tidy:const`" +
		"`proto/a/v1/a.proto: Batch` `x.New` `x.T.M` `time.Now` `go test work` `Makefile` [make](Makefile) [go](https://go.dev)\n```\n`no/such`\n```\n"
	if broken, n := follow(m, files, good); len(broken) > 0 || n != 11 {
		t.Errorf("followed %d, broken %q; want 11 and none", n, broken)
	}
	bad := "`core/y` `y.go` `core/x/x.go: Old` `core/x#T.N` `core/x/x_test.go#New` `proto/a/v1/a.proto: Bat` `x.Old` `x.TestX` [no](docs/no.md)"
	want := []string{
		"no file for the link docs/no.md", "no file or folder core/y", "no file or folder y.go", "no Old in core/x/x.go",
		"no T.N in core/x", "no New in core/x/x_test.go", "no Bat in proto/a/v1/a.proto", "no Old in package x", "no TestX in package x",
	}
	got, _ := follow(m, files, bad)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
}
