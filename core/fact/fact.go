package fact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Type names a kind of fact and its version.
type Type string

// The closed list of facts (docs/format.md).
const (
	TypeClockDeclared      Type = "clock.declared.v1"
	TypeTimeResumed        Type = "clock.resumed.v1"
	TypeContractSigned     Type = "contract.signed.v1"
	TypeContractAmended    Type = "contract.amended.v1"
	TypeContractTerminated Type = "contract.terminated.v1"
	TypeLeaseStarted       Type = "lease.started.v1"
	TypeLeaseResized       Type = "lease.resized.v1"
	TypeLeaseStateChanged  Type = "lease.state_changed.v1"
	TypeLeaseStopped       Type = "lease.stopped.v1"
	TypeDeviceDeclared     Type = "device.declared.v1"
	TypeNodeEnrolled       Type = "node.enrolled.v1"
	TypeNodeRevoked        Type = "node.revoked.v1"
	TypeRefusalWaived      Type = "refusal.waived.v1"
	TypeRefusalCarried     Type = "refusal.carried.v1"
	TypePriceBookPublished Type = "price_book.published.v1"
	TypeSpotPriceChanged   Type = "spot.price_changed.v1"
	TypeMeterRecorded      Type = "meter.recorded.v1"
	TypePackagePurchased   Type = "package.purchased.v1"
	TypePackageEnded       Type = "package.ended.v1"
	TypeCustomerHalted     Type = "customer.halted.v1"
	TypeCutRequested       Type = "cut.requested.v1"
	TypeCutDone            Type = "cut.done.v1"
	TypePeriodClosed       Type = "period.closed.v1"
	TypeInvoiceIssued      Type = "invoice.issued.v1"
	TypeInvoiceRecovered   Type = "invoice.recovered.v1"
	TypeLogRecovered       Type = "log.recovered.v1"
	TypeAlertRaised        Type = "alert.raised.v1"
	TypeAlertResolved      Type = "alert.resolved.v1"
)

// Body is what a fact states. The types of this package are its only implementations.
type Body interface {
	// Type is the fact's name and version.
	Type() Type
	// Entity is what the fact is about (a lease, a contract, a cut ...): the last token of its subject.
	Entity() string
	// Validate tells what is wrong with the statement taken alone, or nil. Whether it fits what was stated
	// before is judged by the folds, which refuse and count it.
	Validate() error
}

// Hash is the SHA-256 of a fact's type, a zero byte and its body as received.
type Hash [sha256.Size]byte

// Fact is one message of the fact stream. The same (key, hash) again is a repeat and is ignored; the same key
// with another hash is refused as conflicting_fact.
type Fact struct {
	Seq  uint64 // position in the fact stream, 0 before it is in the log
	Key  string // ce-id: names the statement, so that a repeat is visible as a repeat
	Hash Hash
	Body Body
}

// New returns the body for a type, ready to be decoded into, or false for a type outside the closed list.
func New(t Type) (Body, bool) {
	switch t {
	case TypeClockDeclared:
		return new(ClockDeclared), true
	case TypeTimeResumed:
		return new(TimeResumed), true
	case TypeContractSigned:
		return new(ContractSigned), true
	case TypeContractAmended:
		return new(ContractAmended), true
	case TypeLeaseStarted:
		return new(LeaseStarted), true
	case TypeLeaseResized:
		return new(LeaseResized), true
	case TypeLeaseStateChanged:
		return new(LeaseStateChanged), true
	case TypeLeaseStopped:
		return new(LeaseStopped), true
	case TypeDeviceDeclared:
		return new(DeviceDeclared), true
	case TypeNodeEnrolled:
		return new(NodeEnrolled), true
	case TypeNodeRevoked:
		return new(NodeRevoked), true
	default:
		if b, ok := newPriced(t); ok {
			return b, true
		}
		return newDecided(t)
	}
}

// newPriced covers what prices and charges stand on besides contracts and leases.
func newPriced(t Type) (Body, bool) {
	switch t {
	case TypePriceBookPublished:
		return new(PriceBookPublished), true
	case TypeSpotPriceChanged:
		return new(SpotPriceChanged), true
	case TypeMeterRecorded:
		return new(MeterRecorded), true
	case TypePackagePurchased:
		return new(PackagePurchased), true
	case TypePackageEnded:
		return new(PackageEnded), true
	case TypeContractTerminated:
		return new(ContractTerminated), true
	default:
		return nil, false
	}
}

// newDecided covers the facts that services decide.
func newDecided(t Type) (Body, bool) {
	switch t {
	case TypeRefusalWaived:
		return new(RefusalWaived), true
	case TypeRefusalCarried:
		return new(RefusalCarried), true
	case TypeCustomerHalted:
		return new(CustomerHalted), true
	case TypeCutRequested:
		return new(CutRequested), true
	case TypeCutDone:
		return new(CutDone), true
	case TypePeriodClosed:
		return new(PeriodClosed), true
	case TypeInvoiceIssued:
		return new(InvoiceIssued), true
	case TypeInvoiceRecovered:
		return new(InvoiceRecovered), true
	case TypeLogRecovered:
		return new(LogRecovered), true
	case TypeAlertRaised:
		return new(AlertRaised), true
	case TypeAlertResolved:
		return new(AlertResolved), true
	default:
		return nil, false
	}
}

// HashJSON is a content hash over the JSON form, for facts that never were on the wire (scenario files).
func HashJSON(b Body) Hash {
	data, err := json.Marshal(b)
	if err != nil {
		data = []byte(err.Error()) // unreachable for valid bodies: every field has a JSON form
	}
	return HashBytes(b.Type(), data)
}

// HashBytes is the content hash of a body as received.
func HashBytes(t Type, data []byte) Hash {
	return sha256.Sum256(append(append([]byte(t), 0), data...))
}

// MarshalText writes lower-case hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText reads hex.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("hash has %d characters; it is SHA-256 in hex", len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}
