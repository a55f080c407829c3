package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// Subjects. Neither stream holds them: a request is no message of the log.
const (
	// All are the requests of every node.
	All = "gh.ingest.*.*"
	// Queue is the name under which every ingest serves, so that each request goes to one of them.
	Queue = "gpuhour-ingest"

	ingestPrefix = "gh.ingest."
	usagePrefix  = "gh.usage."
)

// Limits of a request. The largest message that the log takes fits in alone, and the request into the 1 MiB that a server
// lets through unless it is told otherwise.
const (
	MaxBatches = bus.MaxBatch
	MaxBytes   = bus.MaxMessageBytes + overhead
	overhead   = 32
)

// Subject is where a node sends its requests, given the subject of its batches in the log.
func Subject(usage string) string { return ingestPrefix + strings.TrimPrefix(usage, usagePrefix) }

// UsageSubject is where the batches of a request belong in the log.
func UsageSubject(request string) string {
	return usagePrefix + strings.TrimPrefix(request, ingestPrefix)
}

// Kind is what a request asks for; its first byte.
type Kind byte

// Kinds.
const (
	Publish Kind = 1 // store these batches
	Last    Kind = 2 // say what the log holds last of this node
)

// Request is what a node sends. A publication has at least one batch.
type Request struct {
	Kind       Kind
	ExpectLast uint64   // the stream sequence of the node's last message, 0 for none
	Batches    [][]byte // as they will stand in the log, in order
}

// Size is the number of bytes that Append adds for a batch of n bytes.
func Size(n int) int { return n + uvarintBytes(uint64(n)) }

func uvarintBytes(v uint64) int {
	return len(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), v))
}

// Append writes the request to dst.
func (r *Request) Append(dst []byte) []byte {
	dst = append(dst, byte(r.Kind))
	if r.Kind == Last {
		return dst
	}
	dst = binary.AppendUvarint(dst, r.ExpectLast)
	for _, b := range r.Batches {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
		dst = append(dst, b...)
	}
	return dst
}

var errShort = errors.New("the request ends early")

// ParseRequest reads a request. Its batches share memory with data.
func ParseRequest(data []byte) (Request, error) {
	if len(data) > MaxBytes {
		return Request{}, fmt.Errorf("the request has %d bytes; at most %d", len(data), MaxBytes)
	}
	if len(data) == 0 {
		return Request{}, errShort
	}
	r := Request{Kind: Kind(data[0])}
	data = data[1:]
	switch r.Kind {
	case Publish:
		return r, r.parseBatches(data)
	case Last:
		if len(data) > 0 {
			return Request{}, fmt.Errorf("%d bytes follow the request", len(data))
		}
		return r, nil
	default:
		return Request{}, fmt.Errorf("a request of kind %d is unknown here: an ingest is upgraded before its nodes", r.Kind)
	}
}

func (r *Request) parseBatches(data []byte) error {
	v, n := binary.Uvarint(data)
	if n <= 0 {
		return errShort
	}
	r.ExpectLast, data = v, data[n:]
	r.Batches = make([][]byte, 0, 1)                    // a node that is up to date
	for len(data) > 0 && len(r.Batches) <= MaxBatches { // empty ones would take many times the request's memory
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return errShort
		}
		end := n + int(size)
		r.Batches = append(r.Batches, data[n:end:end])
		data = data[end:]
	}
	switch n := len(r.Batches); {
	case n == 0:
		return errors.New("the request has no batch")
	case n > MaxBatches:
		return fmt.Errorf("the request has more than %d batches", MaxBatches)
	default:
		return nil
	}
}

// Outcome is what became of a request; an answer's first byte.
type Outcome byte

// Outcomes. Only Stored and Unknown leave anything in the log.
const (
	Stored   Outcome = 1 // all batches are in the log, Position is the last one's; also when an earlier request stored them
	Held     Outcome = 2 // answers Last: Batch stands at Position, or nothing does, at 0
	Conflict Outcome = 3 // the node's last message is not the expected one
	Busy     Outcome = 4 // not now; the same request is right later
	Refused  Outcome = 5 // never, for the reason in Detail
	Failed   Outcome = 6 // the log did not take them, for the reason in Detail
	Unknown  Outcome = 7 // they may be stored, now or later: ask what stands
	outcomes Outcome = 8
)

// String names the outcome as metrics do.
func (o Outcome) String() string {
	switch o {
	case Stored:
		return "stored"
	case Held:
		return "held"
	case Conflict:
		return "conflict"
	case Busy:
		return "busy"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	case Unknown:
		return "unknown"
	default:
		return fmt.Sprint("outcome ", byte(o))
	}
}

// Answer is what the ingest answers.
type Answer struct {
	Outcome  Outcome
	Position uint64 // of Stored, Held and Conflict
	Detail   string // for a person
	Batch    []byte // of Held
}

// MaxDetail bounds the text of an answer.
const MaxDetail = 1024

// Append writes the answer to dst.
func (a *Answer) Append(dst []byte) []byte {
	dst = append(dst, byte(a.Outcome))
	dst = binary.AppendUvarint(dst, a.Position)
	detail := a.Detail[:min(len(a.Detail), MaxDetail)]
	dst = binary.AppendUvarint(dst, uint64(len(detail)))
	dst = append(dst, detail...)
	return append(dst, a.Batch...)
}

// ParseAnswer reads an answer.
func ParseAnswer(data []byte) (Answer, error) {
	var a Answer
	if len(data) == 0 {
		return a, errors.New("the answer is empty")
	}
	a.Outcome, data = Outcome(data[0]), data[1:]
	if a.Outcome == 0 || a.Outcome >= outcomes {
		return Answer{}, fmt.Errorf("an answer of kind %d is unknown here", a.Outcome)
	}
	position, n := binary.Uvarint(data)
	if n <= 0 {
		return Answer{}, errors.New("the answer ends early")
	}
	data = data[n:]
	length, n := binary.Uvarint(data)
	if n <= 0 || length > MaxDetail || length > uint64(len(data)-n) {
		return Answer{}, errors.New("the answer ends early")
	}
	data = data[n:]
	a.Position, a.Detail, a.Batch = position, string(data[:length]), data[length:]
	return a, nil
}
