package calendar

import (
	"time"

	"github.com/gpuhour/gpuhour/core/span"
)

// Text is the instant in the zone's local time with its offset, RFC 3339: 2026-02-01T00:00:00+08:00.
func (z Zone) Text(t span.Second) string { return z.at(t).Format(time.RFC3339) }
