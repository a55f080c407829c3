package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// DisclosureFormat is the format that a Disclosure names.
const DisclosureFormat = "gpuhour.block.v1"

// Disclosure is one device block of a signed batch with all that its check needs (docs/format.md, Signature). It shows the batch's head,
// in which gaps and topology name the node's other devices, and of the other blocks the hashes alone.
type Disclosure struct {
	Format      string            `json:"format"`
	Node        string            `json:"node"`
	Boot        string            `json:"boot"`
	Run         uint64            `json:"run"`
	Seq         uint64            `json:"seq"`
	PreviousRun uint64            `json:"previous_run"`
	PreviousSeq uint64            `json:"previous_seq"`
	UnixMinute  int64             `json:"unix_minute"`
	Spoken      uint64            `json:"spoken"`
	Clock       DisclosedClock    `json:"clock"`
	Gaps        []DisclosedGap    `json:"gaps"`
	Topology    *DisclosedDevices `json:"topology"`
	Device      string            `json:"device"`
	Place       int               `json:"place"` // of the block in the batch, from 0
	Block       []byte            `json:"block"`
	Salt        []byte            `json:"salt"`
	Hashes      []fact.Hash       `json:"hashes"` // of all blocks, in order
	Signature   []byte            `json:"signature"`
	PublicKey   fact.PublicKey    `json:"public_key"`
}

// DisclosedClock is the batch's evidence of its clock, in the numbers of docs/format.md.
type DisclosedClock struct {
	State           uint8 `json:"state"`
	OffsetNanos     int64 `json:"offset_nanos"`
	ErrorBoundNanos int64 `json:"error_bound_nanos"`
}

// DisclosedGap is one gap.
type DisclosedGap struct {
	Device string `json:"device"`
	From   int64  `json:"from_unix_seconds"`
	To     int64  `json:"to_unix_seconds"`
	Reason uint8  `json:"reason"`
}

// DisclosedDevices is a topology.
type DisclosedDevices struct {
	Source  string            `json:"source"`
	Driver  string            `json:"driver"`
	Devices []DisclosedDevice `json:"devices"`
}

// DisclosedDevice is one device of a topology.
type DisclosedDevice struct {
	Name        string `json:"name"`
	Parent      string `json:"parent"`
	Vendor      string `json:"vendor"`
	Model       string `json:"model"`
	Serial      string `json:"serial"`
	PCI         string `json:"pci"`
	Profile     string `json:"profile"`
	MemoryBytes int64  `json:"memory_bytes"`
}

// Disclose shows one device of a batch that the key signed.
func Disclose(b *usage.Batch, device string, key fact.PublicKey) (*Disclosure, error) {
	if len(b.Signature) == 0 {
		return nil, fmt.Errorf("batch %s run %d sequence %d is not signed: there is nothing that a disclosure could prove", b.Node, b.Run, b.Seq)
	}
	d := headOf(b)
	d.Device, d.Place, d.Signature, d.PublicKey = device, -1, b.Signature, key
	var devices []string
	for i, block := range b.Blocks {
		name, err := usage.BlockDevice(block)
		if err != nil {
			return nil, fmt.Errorf("disclose block %d of %s run %d sequence %d: %w", i, b.Node, b.Run, b.Seq, err)
		}
		salt := usage.BlockSalt(b.Seed, name)
		devices, d.Hashes = append(devices, name), append(d.Hashes, usage.SaltedHash(salt, block))
		if name == device {
			d.Place, d.Block, d.Salt = i, block, salt
		}
	}
	if d.Place < 0 {
		return nil, fmt.Errorf("batch %s run %d sequence %d holds no device %q; it holds %q", b.Node, b.Run, b.Seq, device, devices)
	}
	_, err := d.Check()
	return d, err
}

func headOf(b *usage.Batch) *Disclosure {
	d := &Disclosure{
		Format: DisclosureFormat, Node: b.Node, Boot: b.Boot, Run: b.Run, Seq: b.Seq, PreviousRun: b.PreviousRun, PreviousSeq: b.PreviousSeq,
		UnixMinute: int64(b.Minute), Spoken: uint64(b.Spoken),
		Clock: DisclosedClock{uint8(b.Clock.State), b.Clock.OffsetNanos, b.Clock.ErrorBoundNano},
	}
	for _, g := range b.Gaps {
		d.Gaps = append(d.Gaps, DisclosedGap{g.Device, int64(g.From), int64(g.To), uint8(g.Reason)})
	}
	if t := b.Topology; t != nil {
		d.Topology = &DisclosedDevices{Source: t.Source, Driver: t.Driver}
		for _, x := range t.Devices {
			d.Topology.Devices = append(d.Topology.Devices, DisclosedDevice(x))
		}
	}
	return d
}

// Head is the batch as far as it is disclosed: without blocks and seed.
func (d *Disclosure) Head() *usage.Batch {
	b := &usage.Batch{
		Node: d.Node, Boot: d.Boot, Run: d.Run, Seq: d.Seq, PreviousRun: d.PreviousRun, PreviousSeq: d.PreviousSeq,
		Minute: span.Minute(d.UnixMinute), Spoken: span.SecondMask(d.Spoken),
		Clock: usage.ClockEvidence{State: usage.ClockState(d.Clock.State), OffsetNanos: d.Clock.OffsetNanos, ErrorBoundNano: d.Clock.ErrorBoundNanos},
	}
	for _, g := range d.Gaps {
		b.Gaps = append(b.Gaps, usage.Gap{Device: g.Device, From: span.Second(g.From), To: span.Second(g.To), Reason: usage.GapReason(g.Reason)})
	}
	if t := d.Topology; t != nil {
		b.Topology = &usage.Topology{Source: t.Source, Driver: t.Driver}
		for _, x := range t.Devices {
			b.Topology.Devices = append(b.Topology.Devices, usage.Device(x))
		}
	}
	return b
}

// ParseDisclosure reads a file. A name that is unknown or that stands twice is an error: the same file must not be read in two ways.
func ParseDisclosure(data []byte) (*Disclosure, error) {
	var d Disclosure
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("it is no disclosure of a block: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("it is no disclosure of a block: something follows the JSON object")
	}
	if d.Format != DisclosureFormat {
		return nil, fmt.Errorf("its format is %q; this version reads %s", d.Format, DisclosureFormat)
	}
	if again, err := json.MarshalIndent(&d, "", "  "); err != nil || !bytes.Equal(bytes.TrimSpace(data), again) {
		return nil, errors.New("it is not in the form in which `gpuhour node disclose` writes: somebody edited it; ask for it again")
	}
	return &d, nil
}

// Bytes is the file.
func (d *Disclosure) Bytes() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	return append(data, '\n'), err
}

// Check tells whether the node's key signed what is disclosed, and reads the block. It proves nothing about whose key it is: that is
// compared with what the provider stated.
func (d *Disclosure) Check() (*usage.Block, error) {
	head := d.Head()
	if err := head.Validate(); err != nil {
		return nil, fmt.Errorf("the head of the batch is not one: %w", err)
	}
	if len(d.Hashes) > usage.MaxBlocks || d.Place < 0 || d.Place >= len(d.Hashes) {
		return nil, fmt.Errorf("the block's place is %d, and there are %d hashes", d.Place, len(d.Hashes))
	}
	var block usage.Block
	if err := block.Decode(d.Block); err != nil {
		return nil, fmt.Errorf("the block cannot be read: %w", err)
	}
	if block.Device != d.Device {
		return nil, fmt.Errorf("the block is of device %q, and the file says %q", block.Device, d.Device)
	}
	if len(d.Salt) != sha256.Size { // or bytes could move between salt and block, and the hash stay
		return nil, fmt.Errorf("the salt has %d bytes, not %d", len(d.Salt), sha256.Size)
	}
	if usage.SaltedHash(d.Salt, d.Block) != d.Hashes[d.Place] {
		return nil, fmt.Errorf("the block and its salt do not give the hash at place %d: one of the three was changed", d.Place)
	}
	hashes := make([][32]byte, len(d.Hashes))
	for i, h := range d.Hashes {
		hashes[i] = h
	}
	if len(d.Signature) != usage.SignatureBytes || !ed25519.Verify(d.PublicKey[:], head.SignedWith(hashes), d.Signature) {
		return nil, fmt.Errorf("the signature does not hold: key %s did not sign this head with these hashes; one of head, hashes, signature and key was changed",
			d.PublicKey.Fingerprint())
	}
	if extra := block.Seen &^ head.Spoken; extra != 0 {
		return nil, fmt.Errorf("the block has values in seconds %#x, which the batch does not speak for", uint64(extra))
	}
	return &block, nil
}
