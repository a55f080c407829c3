package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// newMessage is the empty body of a type, or nil for a type outside the closed list.
func newMessage(t fact.Type) proto.Message {
	switch t {
	case fact.TypeClockDeclared:
		return new(logv1.ClockDeclared)
	case fact.TypeTimeResumed:
		return new(logv1.TimeResumed)
	case fact.TypeContractSigned:
		return new(logv1.ContractSigned)
	case fact.TypeContractAmended:
		return new(logv1.ContractAmended)
	case fact.TypeLeaseStarted:
		return new(logv1.LeaseStarted)
	case fact.TypeLeaseResized:
		return new(logv1.LeaseResized)
	case fact.TypeLeaseStateChanged:
		return new(logv1.LeaseStateChanged)
	case fact.TypeLeaseStopped:
		return new(logv1.LeaseStopped)
	case fact.TypeRefusalWaived:
		return new(logv1.RefusalWaived)
	case fact.TypeRefusalCarried:
		return new(logv1.RefusalCarried)
	case fact.TypePriceBookPublished:
		return new(logv1.PriceBookPublished)
	case fact.TypeSpotPriceChanged:
		return new(logv1.SpotPriceChanged)
	case fact.TypeMeterRecorded:
		return new(logv1.MeterRecorded)
	case fact.TypePackagePurchased:
		return new(logv1.PackagePurchased)
	case fact.TypePackageEnded:
		return new(logv1.PackageEnded)
	case fact.TypeContractTerminated:
		return new(logv1.ContractTerminated)
	case fact.TypeDeviceDeclared:
		return new(logv1.DeviceDeclared)
	case fact.TypeNodeEnrolled:
		return new(logv1.NodeEnrolled)
	case fact.TypeNodeRevoked:
		return new(logv1.NodeRevoked)
	case fact.TypeCustomerHalted:
		return new(logv1.CustomerHalted)
	case fact.TypeCutRequested:
		return new(logv1.CutRequested)
	case fact.TypeCutDone:
		return new(logv1.CutDone)
	case fact.TypePeriodClosed:
		return new(logv1.PeriodClosed)
	case fact.TypeInvoiceIssued:
		return new(logv1.InvoiceIssued)
	case fact.TypeInvoiceRecovered:
		return new(logv1.InvoiceRecovered)
	case fact.TypeLogRecovered:
		return new(logv1.LogRecovered)
	case fact.TypeAlertRaised:
		return new(logv1.AlertRaised)
	case fact.TypeAlertResolved:
		return new(logv1.AlertResolved)
	default:
		return nil
	}
}

// toMessage writes a valid body.
func toMessage(b fact.Body) proto.Message {
	if m := statedMessage(b); m != nil {
		return m
	}
	m := decidedMessage(b)
	must.True(m != nil, "fact %T is in the closed list", b)
	return m
}

// fromMessage reads what newMessage made.
func fromMessage(m proto.Message) (fact.Body, error) {
	if b, err := statedBody(m); b != nil || err != nil {
		return b, err
	}
	b, err := decidedBody(m)
	must.True(b != nil || err != nil, "message %T is in the closed list", m)
	return b, err
}

// wireEnum is a generated enum.
type wireEnum interface {
	~int32
	String() string
}

// word pairs a fact's word with its number on the wire.
type word[W ~string, E wireEnum] struct {
	word W
	wire E
}

//tidy:const
var clockModes = []word[fact.ClockMode, logv1.ClockMode]{
	{"", logv1.ClockMode_CLOCK_MODE_UNSPECIFIED},
	{fact.Wall, logv1.ClockMode_CLOCK_MODE_WALL},
	{fact.Scripted, logv1.ClockMode_CLOCK_MODE_SCRIPTED},
}

//tidy:const
var leaseStates = []word[fact.LeaseState, logv1.LeaseState]{
	{"", logv1.LeaseState_LEASE_STATE_UNSPECIFIED},
	{fact.Running, logv1.LeaseState_LEASE_STATE_RUNNING},
	{fact.Suspended, logv1.LeaseState_LEASE_STATE_SUSPENDED},
	{fact.Halted, logv1.LeaseState_LEASE_STATE_STOPPED},
}

//tidy:const
var endedBys = []word[fact.EndedBy, logv1.EndedBy]{
	{"", logv1.EndedBy_ENDED_BY_UNSPECIFIED},
	{fact.ByCustomer, logv1.EndedBy_ENDED_BY_CUSTOMER},
	{fact.ByProvider, logv1.EndedBy_ENDED_BY_PROVIDER},
	{fact.ByFault, logv1.EndedBy_ENDED_BY_FAULT},
	{fact.ByArrears, logv1.EndedBy_ENDED_BY_ARREARS},
	{fact.ByExpired, logv1.EndedBy_ENDED_BY_EXPIRED},
}

// toWire finds the number of a word that was validated.
func toWire[W ~string, E wireEnum](words []word[W, E], v W) E {
	for _, w := range words {
		if w.word == v {
			return w.wire
		}
	}
	must.Never("word %q was validated", v)
	return 0
}

// fromWire finds the word of a number; a number without one comes from a later version. Unspecified is the empty word,
// which validation refuses.
func fromWire[W ~string, E wireEnum](words []word[W, E], v E) (W, error) {
	for _, w := range words {
		if w.wire == v {
			return w.word, nil
		}
	}
	return "", fmt.Errorf("%T %d is %w", v, v, ErrUnknown)
}
