package trust

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/gpuhour/gpuhour/core/usage"
)

// seededAs begins what a seed is made of, so that the private key's HMAC means nothing else.
const seededAs = "gpuhour batch seed 1\x00"

// Seed is a batch's seed under a private key (docs/format.md, Signature). It follows from the batch's name, so that the same batch
// published again has the same bytes.
func Seed(key ed25519.PrivateKey, b *usage.Batch) []byte {
	mac := hmac.New(sha256.New, key.Seed())
	data := []byte(seededAs)
	for _, s := range [...]string{b.Node, b.Boot} {
		data = append(binary.BigEndian.AppendUint64(data, uint64(len(s))), s...)
	}
	data = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(data, b.Run), b.Seq)
	mac.Write(data) // a hash never returns an error
	return mac.Sum(nil)
}

// Sign sets a batch's seed and signature. Its blocks are in order.
func Sign(key ed25519.PrivateKey, b *usage.Batch) error {
	b.Seed = Seed(key, b)
	signed, err := b.SignedBytes()
	if err != nil {
		return fmt.Errorf("sign batch %s run %d sequence %d: %w", b.Node, b.Run, b.Seq, err)
	}
	b.Signature = ed25519.Sign(key, signed)
	return nil
}
