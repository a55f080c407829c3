package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// What can be wrong with a fact or a tick. Each stops the reader: the log cannot be read past a statement that is not
// understood.
var (
	// ErrUnknown is a type, field or enum value that this version does not know: upgrade the readers before the writers.
	ErrUnknown = errors.New("unknown to this version of gpuhour; upgrade this reader and start it again")
	// ErrEnvelope is a wrong subject or header.
	ErrEnvelope = errors.New("the envelope breaks docs/format.md")
	// ErrBody is a body that cannot be decoded or states something invalid.
	ErrBody = errors.New("the body breaks docs/format.md")
)

// EncodeFact writes a fact as the log keeps it, without an expectation on its subject. The same key and body always
// give the same bytes. Seq and Hash are ignored: the hash is fact.HashBytes over the type and Data. The error is ErrBody
// with what Validate says.
func EncodeFact(f fact.Fact) (bus.Publication, error) {
	if err := f.Validate(); err != nil {
		return bus.Publication{}, fmt.Errorf("encode fact %q: %w: %w", f.Key, ErrBody, err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(toMessage(f.Body))
	if err != nil {
		return bus.Publication{}, fmt.Errorf("encode fact %q: %w: %w", f.Key, ErrBody, err)
	}
	return bus.Publication{Subject: FactSubject(f.Body), Header: envelope(f), Data: data}, nil
}

// DecodeFact reads a fact from the log. Its Hash covers the bytes as received, so another encoding of the same
// statement is another content. Errors are ErrUnknown, ErrEnvelope and ErrBody.
func DecodeFact(m bus.Message) (fact.Fact, error) {
	f, err := decodeFact(m)
	if err != nil {
		return fact.Fact{}, fmt.Errorf("decode fact %d on %s: %w", m.Seq, m.Subject, err)
	}
	return f, nil
}

func decodeFact(m bus.Message) (fact.Fact, error) {
	ce, err := attributes(m.Header)
	if err != nil {
		return fact.Fact{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	t := fact.Type(ce[headerType])
	body, err := decodeBody(t, m.Data)
	if err != nil {
		return fact.Fact{}, fmt.Errorf("%s: %w", t, err)
	}
	f := fact.Fact{Seq: m.Seq, Key: ce[headerID], Hash: fact.HashBytes(t, m.Data), Body: body}
	if err := f.Validate(); err != nil {
		return fact.Fact{}, fmt.Errorf("%w: %w", ErrBody, err)
	}
	if want := FactSubject(body); m.Subject != want || ce[headerSubject] != body.Entity() {
		return fact.Fact{}, fmt.Errorf("%w: the body belongs to subject %s and ce-subject %q, which is %q", ErrEnvelope, want, body.Entity(), ce[headerSubject])
	}
	return f, nil
}

func decodeBody(t fact.Type, data []byte) (fact.Body, error) {
	m := newMessage(t)
	if m == nil {
		return nil, fmt.Errorf("type %q is %w", t, ErrUnknown)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	if name := unknownIn(m.ProtoReflect()); name != "" {
		return nil, fmt.Errorf("a field of %s is %w", name, ErrUnknown)
	}
	return fromMessage(m)
}

// unknownIn names a message in m that holds unknown fields, or "".
func unknownIn(m protoreflect.Message) (name protoreflect.Name) {
	if len(m.GetUnknown()) > 0 {
		return m.Descriptor().Name()
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for list, i := v.List(), 0; i < list.Len() && name == ""; i++ {
				name = unknownIn(list.Get(i).Message())
			}
		default:
			name = unknownIn(v.Message())
		}
		return name == ""
	})
	return name
}
