package bus

import (
	"fmt"
	"strings"
)

const (
	factPrefix      = "gh.fact."
	usagePrefix     = "gh.usage."
	maxSubjectBytes = 512
)

// StreamOf returns the stream that holds a subject (or a filter), or ErrInvalid.
func StreamOf(subject string) (string, error) {
	switch {
	case strings.HasPrefix(subject, factPrefix):
		return Facts, nil
	case subject == Tick, strings.HasPrefix(subject, usagePrefix):
		return Usage, nil
	}
	return "", fmt.Errorf("%w: no stream holds subject %q", ErrInvalid, subject)
}

// CheckSubject returns the stream of an exact subject, or ErrInvalid.
func CheckSubject(subject string) (stream string, err error) {
	if strings.ContainsAny(subject, "*>") {
		return "", fmt.Errorf("%w: subject %q has a wildcard", ErrInvalid, subject)
	}
	return checkTokens(subject)
}

func checkTokens(subject string) (stream string, err error) {
	if len(subject) > maxSubjectBytes {
		return "", fmt.Errorf("%w: subject of %d bytes, at most %d", ErrInvalid, len(subject), maxSubjectBytes)
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return "", fmt.Errorf("%w: subject %q has an empty or unprintable token", ErrInvalid, subject)
		}
	}
	return StreamOf(subject)
}

// CheckRead validates the arguments of Read (subject "") and ReadSubject.
func CheckRead(stream, subject string, max int) error {
	if err := CheckStream(stream); err != nil {
		return err
	}
	if max < 1 {
		return fmt.Errorf("%w: read of %d messages", ErrInvalid, max)
	}
	if subject == "" {
		return nil
	}
	// A filter of the other stream would read as "nothing there" for ever.
	if of, err := checkTokens(subject); err != nil {
		return err
	} else if of != stream {
		return fmt.Errorf("%w: %q is not in stream %s", ErrInvalid, subject, stream)
	}
	return nil
}

// CheckStream returns ErrInvalid unless stream is one of the two.
func CheckStream(stream string) error {
	if stream != Facts && stream != Usage {
		return fmt.Errorf("%w: no stream %q", ErrInvalid, stream)
	}
	return nil
}

// Check validates p and returns its stream. Errors: ErrInvalid, ErrTooLarge.
func (p Publication) Check() (stream string, err error) {
	stream, err = CheckSubject(p.Subject)
	if err != nil {
		return "", err
	}
	header := 0
	for name, value := range p.Header {
		if err := checkHeader(name, value); err != nil {
			return "", fmt.Errorf("publish %s: %w", p.Subject, err)
		}
		header += headerBytes(name, value)
	}
	if header > MaxHeaderBytes {
		return "", fmt.Errorf("publish %s: headers of %d bytes, at most %d: %w", p.Subject, header, MaxHeaderBytes, ErrTooLarge)
	}
	if n := p.bytes(); n > MaxMessageBytes {
		return "", fmt.Errorf("publish %s: %d bytes, at most %d: %w", p.Subject, n, MaxMessageBytes, ErrTooLarge)
	}
	return stream, nil
}

// CheckBatch validates a batch and returns its stream. Errors: ErrInvalid, ErrTooLarge.
func CheckBatch(ps []Publication) (stream string, err error) {
	if len(ps) == 0 {
		return "", fmt.Errorf("%w: empty batch", ErrInvalid)
	}
	if len(ps) > MaxBatch {
		return "", fmt.Errorf("batch of %d messages, at most %d: %w", len(ps), MaxBatch, ErrTooLarge)
	}
	written := make(map[string]bool, len(ps))
	bytes := 0
	for _, p := range ps {
		of, err := p.Check()
		switch {
		case err != nil:
			return "", err
		case stream == "":
			stream = of
		case of != stream:
			return "", fmt.Errorf("%w: batch over streams %s and %s", ErrInvalid, stream, of)
		}
		if p.ExpectLast != nil && written[p.Subject] {
			return "", fmt.Errorf("%w: expectation on %s after the batch wrote it", ErrInvalid, p.Subject)
		}
		written[p.Subject] = true
		bytes += p.bytes()
	}
	if bytes > MaxBatchBytes {
		return "", fmt.Errorf("batch of %d bytes, at most %d: %w", bytes, MaxBatchBytes, ErrTooLarge)
	}
	return stream, nil
}

func (p Publication) bytes() int {
	n := len(p.Data)
	for name, value := range p.Header {
		n += headerBytes(name, value)
	}
	return n
}

// headerBytes is what one header takes on the wire: "name: value\r\n".
func headerBytes(name, value string) int { return len(name) + len(value) + 4 }

// checkHeader refuses what would not come back as it was sent. Nats- names belong to the server.
func checkHeader(name, value string) error {
	isToken := func(r rune) bool {
		return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }) {
		return fmt.Errorf("%w: header name %q", ErrInvalid, name)
	}
	if len(name) >= 5 && strings.EqualFold(name[:5], "nats-") {
		return fmt.Errorf("%w: header %q is reserved for the server", ErrInvalid, name)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Trim(value, " ") != value {
		return fmt.Errorf("%w: header %s has control characters or outer spaces in %q", ErrInvalid, name, value)
	}
	return nil
}
