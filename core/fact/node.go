package fact

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// PublicKey is the Ed25519 key with which a node's signatures are checked. It is written as "ed25519:" and base64 (RFC 4648,
// section 5, no padding).
type PublicKey [ed25519.PublicKeySize]byte

const keyPrefix = "ed25519:"

func (k PublicKey) String() string { return keyPrefix + base64.RawURLEncoding.EncodeToString(k[:]) }

// Fingerprint is for people who compare keys by eye: ten bytes of the key's SHA-256 in hex, in fours.
func (k PublicKey) Fingerprint() string {
	sum := sha256.Sum256(k[:])
	digits := hex.EncodeToString(sum[:10])
	groups := make([]string, 0, 5)
	for i := 0; i < len(digits); i += 4 {
		groups = append(groups, digits[i:i+4])
	}
	return strings.Join(groups, "-")
}

// MarshalText writes the text form.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the text form.
func (k *PublicKey) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), keyPrefix)
	data, err := base64.RawURLEncoding.Strict().DecodeString(digits)
	if !ok || err != nil || len(data) != len(k) {
		return fmt.Errorf("public key %q: write it as `gpuhour node keygen` prints it, %s and 43 characters", text, keyPrefix)
	}
	copy(k[:], data)
	return nil
}

func (k PublicKey) validate() error {
	if k == (PublicKey{}) {
		return errors.New("public_key is missing")
	}
	return nil
}

// NodeEnrolled says that a node signs with a key. From the first one of a node on, every batch of it must be signed with a key that
// is enrolled and not revoked (core/trust).
type NodeEnrolled struct {
	Node      string    `json:"node" yaml:"node"`
	PublicKey PublicKey `json:"public_key" yaml:"public_key"`
	By        string    `json:"by" yaml:"by"`
	Note      string    `json:"note" yaml:"note"`
}

// NodeRevoked takes a key from a node for good: no later enrolment of that node brings it back.
type NodeRevoked struct {
	Node      string    `json:"node" yaml:"node"`
	PublicKey PublicKey `json:"public_key" yaml:"public_key"`
	By        string    `json:"by" yaml:"by"`
	Note      string    `json:"note" yaml:"note"`
}

// Type implements Body.
func (*NodeEnrolled) Type() Type { return TypeNodeEnrolled }

// Type implements Body.
func (*NodeRevoked) Type() Type { return TypeNodeRevoked }

// Entity implements Body.
func (b *NodeEnrolled) Entity() string { return b.Node }

// Entity implements Body.
func (b *NodeRevoked) Entity() string { return b.Node }

// Validate implements Body.
func (b *NodeEnrolled) Validate() error {
	return errors.Join(name("node", b.Node), b.PublicKey.validate(), name("by", b.By), text("note", b.Note, MaxNoteBytes))
}

// Validate implements Body.
func (b *NodeRevoked) Validate() error {
	return errors.Join(name("node", b.Node), b.PublicKey.validate(), name("by", b.By), text("note", b.Note, MaxNoteBytes))
}
