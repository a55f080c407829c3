package codec

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
)

// Partitions is the number of partitions of usage subjects; it never changes.
const Partitions = 64

const (
	factPrefix  = "gh.fact."
	usagePrefix = "gh.usage."

	maxTokenBytes = 200
)

// Partition is fnv1a32(node) mod 64.
func Partition(node string) int {
	h := fnv.New32a()
	h.Write([]byte(node)) // a hash never returns an error
	return int(h.Sum32() % Partitions)
}

// Token is the form of an id inside a subject: itself, or "=" and its base32, or, where that is longer than 200
// bytes, "=h" and its SHA-256 in hex. No two ids share a token: a hash token has 66 bytes, and no base32 has 65.
func Token(id string) string {
	token := id
	if !plain(id) {
		token = "=" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(id)))
	}
	if len(token) > maxTokenBytes {
		sum := sha256.Sum256([]byte(id))
		token = "=h" + hex.EncodeToString(sum[:])
	}
	return token
}

func plain(id string) bool {
	for i := range len(id) {
		c := id[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return id != ""
}

// FactSubject is the subject of a fact: gh.fact.<kind>.<entity>.
func FactSubject(b fact.Body) string { return factPrefix + kind(b.Type()) + "." + Token(b.Entity()) }

// UsageSubject is the subject of a node's batches: gh.usage.<partition>.<node>.
func UsageSubject(node string) string {
	return usagePrefix + strconv.Itoa(Partition(node)) + "." + Token(node)
}

// kind is the third token of a fact's subject. A request for a cut and its answer have kinds of their own, because
// each is claimed: it must be the first message of its subject.
func kind(t fact.Type) string {
	switch t {
	case fact.TypeCutDone:
		return "cut_done"
	case fact.TypePeriodClosed:
		return "closing"
	default:
		k, _, _ := strings.Cut(string(t), ".")
		return k
	}
}
