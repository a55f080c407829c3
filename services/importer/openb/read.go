package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
)

// File is an open file and the name that errors give it.
type File struct {
	Name string
	io.Reader
}

// Node is a line of the node file. A node without GPUs is kept: it is part of the trace and gets no pod.
type Node struct {
	Name string
	GPUs int64
}

// Device is the id of the node's i-th GPU, from 0.
func (n Node) Device(i int) string { return n.Name + "/gpu-" + strconv.Itoa(i) }

// Pod is a line of the pod file. Times are seconds from the trace's start.
type Pod struct {
	Name      string
	GPUs      int64
	GPUMilli  int64 // of each GPU; meaningless when GPUs is 0
	QoS       string
	Phase     string
	Scheduled bool
	Start     int64 // scheduled_time; meaningful when Scheduled
	End       int64 // deletion_time
}

// Trace is both files, in file order.
type Trace struct {
	Nodes []Node
	Pods  []Pod
}

const (
	maxGPUs    = 1024
	maxSeconds = 100 * 366 * 86400 // a century: more is a wrong unit
)

// The headers, exactly.
//
//tidy:const
var (
	nodeHeader = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podHeader  = []string{
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
		"creation_time", "deletion_time", "scheduled_time",
	}
)

// customers maps qos to the customer that is billed.
//
//tidy:const
var customers = map[string]string{
	"LS": "openb-ls", "BE": "openb-be", "Burstable": "openb-burstable", "Guaranteed": "openb-guaranteed",
}

//tidy:const
var phases = []string{"Pending", "Running", "Succeeded", "Failed"}

// Read reads both files. Whatever they do not promise (another header, a missing column, a bad number, an unknown class,
// a name twice, an end before its start) is an error with file and line.
func Read(nodes, pods File) (*Trace, error) {
	t := &Trace{}
	seen := map[string]bool{}
	err := table(nodes, nodeHeader, func(r *row) {
		n := Node{Name: r.name(0, seen), GPUs: r.number(3, 0, maxGPUs)}
		t.Nodes = append(t.Nodes, n)
	})
	if err != nil {
		return nil, err
	}
	seen = map[string]bool{}
	err = table(pods, podHeader, func(r *row) { t.Pods = append(t.Pods, r.pod(seen)) })
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (r *row) pod(seen map[string]bool) Pod {
	p := Pod{
		Name: r.name(0, seen), GPUs: r.number(3, 0, maxGPUs), QoS: r.cells[6], Phase: r.cells[7],
		Scheduled: r.cells[10] != "", End: r.number(9, 0, maxSeconds),
	}
	if p.GPUs > 0 {
		p.GPUMilli = r.number(4, 1, fact.WholeShareMilli)
	}
	if _, ok := customers[p.QoS]; !ok {
		r.fail(6, "is none of LS, BE, Burstable, Guaranteed")
	}
	if !slices.Contains(phases, p.Phase) {
		r.fail(7, "is none of "+strings.Join(phases, ", "))
	}
	if p.Scheduled {
		p.Start = r.number(10, 0, maxSeconds)
		if p.End < p.Start {
			r.fail(9, "lies before scheduled_time "+r.cells[10])
		}
	}
	return p
}

// row is one line; the first thing wrong with it is kept.
type row struct {
	header, cells []string
	err           error
}

func (r *row) fail(column int, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s %q %s", r.header[column], r.cells[column], what)
	}
}

func (r *row) number(column int, low, high int64) int64 {
	v, err := strconv.ParseInt(r.cells[column], 10, 64)
	if err != nil || v < low || v > high {
		r.fail(column, fmt.Sprintf("is no whole number from %d to %d", low, high))
	}
	return v
}

func (r *row) name(column int, seen map[string]bool) string {
	name := r.cells[column]
	switch {
	case name == "":
		r.fail(column, "is empty")
	case seen[name]:
		r.fail(column, "is there twice")
	}
	seen[name] = true
	return name
}

func table(f File, header []string, each func(*row)) error {
	c := csv.NewReader(f)
	c.ReuseRecord = true
	cells, err := c.Read()
	if err != nil {
		return located(f, 1, err)
	}
	if !slices.Equal(cells, header) {
		return fmt.Errorf("%s:1: the header is %q; expected %q", f.Name, strings.Join(cells, ","), strings.Join(header, ","))
	}
	c.FieldsPerRecord = len(header)
	for {
		cells, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return located(f, 1, err)
		}
		line, _ := c.FieldPos(0)
		r := row{header: header, cells: cells}
		each(&r)
		if r.err != nil {
			return fmt.Errorf("%s:%d: %w", f.Name, line, r.err)
		}
	}
}

// located names file and line once, whatever the CSV reader puts in its own text.
func located(f File, line int, err error) error {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the file is empty")
	case errors.As(err, &parse):
		line, err = parse.StartLine, parse.Err
	}
	return fmt.Errorf("%s:%d: %w", f.Name, line, err)
}
