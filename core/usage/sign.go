package usage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Sizes of a signed batch.
const (
	SeedBytes      = 32
	SignatureBytes = 64
)

// signedAs begins everything that a node signs, so that no signature means two things.
const signedAs = "gpuhour usage batch 1\x00"

// SignedBytes is what a node signs of a batch with its Ed25519 key (docs/format.md, Signature): all that the batch says
// beside its blocks, then one hash per block. A block can so be shown to its customer, with its salt and the other
// blocks' hashes, without showing them. The batch's blocks are in order and Seed is set.
func (b *Batch) SignedBytes() ([]byte, error) {
	hashes := make([][sha256.Size]byte, 0, len(b.Blocks))
	for _, block := range b.Blocks {
		hash, err := BlockHash(b.Seed, block)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return b.SignedWith(hashes), nil
}

// SignedWith is SignedBytes of a batch of whose blocks only the hashes are known.
func (b *Batch) SignedWith(hashes [][sha256.Size]byte) []byte {
	dst := append(make([]byte, 0, 512), signedAs...)
	dst = appendText(appendText(dst, b.Node), b.Boot)
	for _, v := range [...]uint64{
		b.Run, b.Seq, b.PreviousRun, b.PreviousSeq, uint64(b.Minute), uint64(b.Spoken),
		uint64(b.Clock.State), uint64(b.Clock.OffsetNanos), uint64(b.Clock.ErrorBoundNano), uint64(len(b.Gaps)),
	} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	for _, g := range b.Gaps {
		dst = appendText(dst, g.Device)
		for _, v := range [...]uint64{uint64(g.From), uint64(g.To), uint64(g.Reason)} {
			dst = binary.BigEndian.AppendUint64(dst, v)
		}
	}
	dst = b.Topology.appendSigned(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(hashes)))
	for i := range hashes {
		dst = append(dst, hashes[i][:]...)
	}
	return dst
}

// appendSigned writes a topology, and one byte for none.
func (t *Topology) appendSigned(dst []byte) []byte {
	if t == nil {
		return append(dst, 0)
	}
	dst = appendText(appendText(append(dst, 1), t.Source), t.Driver)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(t.Devices)))
	for _, d := range t.Devices {
		for _, s := range [...]string{d.Name, d.Parent, d.Vendor, d.Model, d.Serial, d.PCI, d.Profile} {
			dst = appendText(dst, s)
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(d.MemoryBytes))
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(s))), s...)
}

// BlockHash is the hash of one device block under its own salt. Who has a salt can try what a block says, so a block's salt
// is shown with the block only, and the batch's seed, of which all salts are made, to nobody outside the provider.
func BlockHash(seed, block []byte) ([sha256.Size]byte, error) {
	device, err := BlockDevice(block)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return SaltedHash(BlockSalt(seed, device), block), nil
}

// BlockSalt is HMAC-SHA-256 of the device's name under the batch's seed.
func BlockSalt(seed []byte, device string) []byte {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(device)) // a hash never returns an error
	return mac.Sum(nil)
}

// SaltedHash is SHA-256 of a zero byte, the salt and the block.
func SaltedHash(salt, block []byte) [sha256.Size]byte {
	data := make([]byte, 0, 1+len(salt)+len(block))
	return sha256.Sum256(append(append(append(data, 0), salt...), block...))
}

// validateSignature judges sizes; whether the signature is right is a question of the keys that are in force.
func (b *Batch) validateSignature() error {
	switch {
	case len(b.Seed) == 0 && len(b.Signature) == 0, len(b.Seed) == SeedBytes && len(b.Signature) == SignatureBytes:
		return nil
	default:
		return fmt.Errorf("seed of %d bytes and signature of %d; a signed batch has %d and %d", len(b.Seed), len(b.Signature), SeedBytes, SignatureBytes)
	}
}
