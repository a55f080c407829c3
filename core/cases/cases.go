package cases

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/gpuhour/gpuhour/core/must"
)

//go:embed *.yaml
var files embed.FS

// List is the names of all case files, sorted.
func List() []string {
	names, err := fs.Glob(files, "*.yaml")
	must.True(err == nil, "list the embedded cases: %v", err)
	return names
}

// Read is the text of one case file.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read case %s: %w", name, err)
	}
	return data, nil
}
