package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// modulePath is the module whose sources are checked.
const modulePath = "github.com/gpuhour/gpuhour"

// source is one Go file of the module, parsed with its comments.
type source struct {
	path  string // from the module root, with slashes
	ast   *ast.File
	fset  *token.FileSet
	lines int
}

// finding is one broken rule at one place.
type finding struct {
	path string
	line int
	rule string
	text string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.path, f.line, f.rule, f.text)
}

// load parses every hand-written Go file below fsys. Folders that are modules of
// their own, hidden or testdata are left out, as the go command does; generated
// files are left out by the mark that gofmt knows.
func load(fsys fs.FS) ([]*source, error) {
	var all []*source
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && foreign(fsys, p):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		s, err := parse(fsys, p)
		if err == nil && !ast.IsGenerated(s.ast) {
			all = append(all, s)
		}
		return err
	})
	return all, err
}

func foreign(fsys fs.FS, dir string) bool {
	name := path.Base(dir)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func parse(fsys fs.FS, p string) (*source, error) {
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", p, err)
	}
	return &source{path: p, ast: file, fset: fset, lines: bytes.Count(text, []byte("\n"))}, nil
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// in reports whether the file is below one of the top folders; "." is the root
// package alone.
func (s *source) in(tops ...string) bool {
	top, _, below := strings.Cut(s.path, "/")
	for _, t := range tops {
		if below && top == t || !below && t == "." {
			return true
		}
	}
	return false
}

func (s *source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// imported returns the import path that a selector such as time.Now goes
// through, or "" when its left side is no imported package.
func (s *source) imported(sel *ast.SelectorExpr) string {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, spec := range s.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has accepted it
		if spec.Name == nil && path.Base(p) == id.Name || spec.Name != nil && spec.Name.Name == id.Name {
			return p
		}
	}
	return ""
}
