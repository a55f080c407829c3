package openb

import (
	"embed"
	"fmt"
)

//go:embed trace/openb_node_list_all_node.csv trace/openb_pod_list_default.csv
var files embed.FS

// The embedded files.
const (
	NodeFile = "trace/openb_node_list_all_node.csv"
	PodFile  = "trace/openb_pod_list_default.csv"
)

// Embedded reads the trace that comes with the program.
func Embedded() (*Trace, error) {
	nodes, err := files.Open(NodeFile)
	if err != nil {
		return nil, fmt.Errorf("open the embedded trace: %w", err)
	}
	pods, err := files.Open(PodFile)
	if err != nil {
		return nil, fmt.Errorf("open the embedded trace: %w", err)
	}
	return Read(File{NodeFile, nodes}, File{PodFile, pods})
}
