package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/smi"
)

// smiPatience is how long a session waits for the first row: nvidia-smi starts slowly where the driver is loaded first.
const smiPatience = 10 * time.Second

// smiOutput is the output of a running nvidia-smi. There is one for the whole process: a session that is opened anew goes on in it, since
// the header, which says what the cells are, came only once.
type smiOutput struct{ *smi.Stream }

// Close implements collector.Hardware: nothing ends.
func (smiOutput) Close() error { return nil }

// smiOpener begins to follow when the hardware is first opened.
func smiOpener(path string, stdin io.Reader) (func() (collector.Hardware, error), error) {
	name, in := "standard input", stdin
	if path != "-" {
		name = path
		f, err := openPipe(path)
		if err != nil {
			return nil, fmt.Errorf("--smi: %w", err)
		}
		in = f
	}
	follow := sync.OnceValue(func() smiOutput { return smiOutput{smi.Follow(name, in, smi.FollowOptions{})} })
	return func() (collector.Hardware, error) {
		s := follow()
		for end := time.Now().Add(smiPatience); time.Now().Before(end); {
			if _, err := s.Scan(); err == nil {
				break
			}
			select {
			case <-s.Done():
				return s, nil // its Scan says why
			case <-time.After(50 * time.Millisecond):
			}
		}
		return s, nil
	}, nil
}

// openPipe opens a named pipe for writing too: so it does not wait for nvidia-smi, and has no end when that is started again.
func openPipe(path string) (*os.File, error) {
	at, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is not there; make it with mkfifo, and let nvidia-smi write into it", path)
	case err != nil:
		return nil, err
	case at.Mode()&fs.ModeNamedPipe == 0:
		return nil, fmt.Errorf("%s is no named pipe; make one with mkfifo. A file that nvidia-smi wrote is played with `gpuhour collector replay`", path)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// headerBegin tells a recording of ours from nvidia-smi's CSV, which has no such column.
const headerBegin = "second,"

// maxTold bounds the lines of a file that are reported one by one.
const maxTold = 5

// readRecording reads a recording of ours, or the CSV of nvidia-smi.
func readRecording(path string) (rec *recorded.Recording, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewReader(f)
	if begin, _ := in.Peek(len(headerBegin)); string(begin) == headerBegin || len(begin) == 0 { // what cannot be read is told by who reads it
		return recorded.ReadCSV(path, in)
	}
	result, err := smi.Read(path, in, smi.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w; a recording of `gpuhour collector record` begins with the line %s", err, recorded.Header)
	}
	rec = result.Recording
	for _, b := range result.Bad[:min(len(result.Bad), maxTold)] {
		rec.Notes = append(rec.Notes, b.String())
	}
	if more := result.BadCount - maxTold; more > 0 {
		rec.Notes = append(rec.Notes, fmt.Sprintf("%s: %s more not used, in whole or in part", path, count(more, "line")))
	}
	return rec, nil
}
