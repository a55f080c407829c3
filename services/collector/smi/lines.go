package smi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine is far more than nvidia-smi prints in a line with every column that it has.
const maxLine = 64 << 10

var errCut = errors.New("the text ends inside this line; a number in it may be cut, so it is left out")

// each gives every line to take. One that has no end, or is longer than maxLine, comes with the reason why it is left out.
func each(r io.Reader, take func(text string, why error)) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case err == nil:
			take(string(line), nil)
		case errors.Is(err, bufio.ErrBufferFull):
			take(string(line[:maxBadText]), fmt.Errorf("the line is longer than %d bytes; this is not nvidia-smi's CSV", maxLine))
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			if err != nil {
				return end(err)
			}
		default:
			if len(line) > 0 {
				take(string(line), errCut)
			}
			return end(err)
		}
	}
}

func end(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
