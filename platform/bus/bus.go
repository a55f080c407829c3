package bus

import (
	"context"
	"time"
)

// The two streams. Facts hold gh.fact.>, usage holds gh.usage.> and gh.tick.
const (
	Facts = "GPUHOUR_FACTS"
	Usage = "GPUHOUR_USAGE"

	// Tick is the subject of the ticks in the usage stream.
	Tick = "gh.tick"
)

// Limits, the same in every implementation. JetStream's own are 1000 messages in an atomic batch,
// 1 MiB in a message (headers included, the server's own ones too), 64 KiB in its headers and
// 128 MiB waiting in front of a stream.
const (
	MaxBatch        = 1000
	MaxBatchBytes   = 32 << 20
	MaxMessageBytes = 1<<20 - 1<<10
	MaxHeaderBytes  = 32 << 10
)

// HeaderID is the header that names a fact: the CloudEvents id, derived from the fact's key.
const HeaderID = "ce-id"

// Message is one message as the stream holds it. A message without headers has a nil Header.
type Message struct {
	Stream  string
	Seq     uint64
	Subject string
	Header  map[string]string
	Data    []byte
	Time    time.Time // the server's timestamp, UTC
}

// Publication is a message on its way into the stream that holds its subject.
type Publication struct {
	Subject string
	Header  map[string]string
	Data    []byte
	// ExpectLast is the stream sequence of the last message on this subject, 0 for none yet. The
	// publication is refused when it is another one. Nil expects nothing.
	ExpectLast *uint64
}

// Bus is the log. All methods may be called concurrently. They return ErrClosed after Close, and
// ErrInvalid for arguments that no state of the log could make right.
type Bus interface {
	// Publish returns the sequence once the message is on disk. Errors: ErrConflict, ErrTooLarge,
	// ErrFull, ErrDenied: nothing was stored. ErrAmbiguous: it may be stored, now or later; see Claim.
	Publish(ctx context.Context, p Publication) (seq uint64, err error)

	// PublishBatch stores all messages under contiguous sequences and returns the last one, or
	// stores none. All subjects belong to one stream; at most MaxBatch messages and MaxBatchBytes.
	// A subject that was already written in the batch cannot carry an expectation. Errors as Publish.
	PublishBatch(ctx context.Context, ps []Publication) (last uint64, err error)

	// Last returns the last message of an exact subject, as the stream's leader has it, or ErrNotFound.
	Last(ctx context.Context, subject string) (Message, error)

	// LastSeq returns the stream's last sequence, 0 when nothing was ever stored.
	LastSeq(ctx context.Context, stream string) (uint64, error)

	// Read returns up to max messages with a sequence above after, in order and without a hole. It
	// may return fewer; none means that there are no more now. It does not wait for new ones. When
	// messages right above after are gone it returns a *GapError and no messages.
	Read(ctx context.Context, stream string, after uint64, max int) ([]Message, error)

	// ReadSubject is Read for one subject or wildcard filter of the stream.
	ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) ([]Message, error)

	// Wait returns nil once the stream holds a message with a sequence above after, else ctx's error.
	Wait(ctx context.Context, stream string, after uint64) error

	Close() error
}
