package codec

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// statedMessage writes the facts that people and their systems state; nil for the others.
func statedMessage(b fact.Body) proto.Message {
	switch b := b.(type) {
	case *fact.ClockDeclared:
		return &logv1.ClockDeclared{Mode: toWire(clockModes, b.Mode)}
	case *fact.TimeResumed:
		return &logv1.TimeResumed{AtUnixSeconds: int64(b.At), By: b.By}
	case *fact.ContractSigned:
		return &logv1.ContractSigned{Contract: b.Contract, Customer: b.Customer, Document: b.Document}
	case *fact.ContractAmended:
		return &logv1.ContractAmended{Contract: b.Contract, EffectiveUnixSeconds: int64(b.Effective), Document: b.Document}
	case *fact.LeaseStarted:
		return &logv1.LeaseStarted{
			Lease: b.Lease, Customer: b.Customer, Contract: b.Contract, Sku: b.SKU, PricingMode: b.PricingMode, Region: b.Region,
			ServiceTier: b.ServiceTier, Dedicated: b.Dedicated, AtUnixSeconds: int64(b.At), Devices: sharesToWire(b.Devices),
			Count: b.Count, ShareMilli: b.ShareMilli, Labels: labelsToWire(b.Labels),
		}
	case *fact.LeaseResized:
		return &logv1.LeaseResized{
			Lease: b.Lease, AtUnixSeconds: int64(b.At), Devices: sharesToWire(b.Devices), Count: b.Count, ShareMilli: b.ShareMilli,
		}
	case *fact.LeaseStateChanged:
		return &logv1.LeaseStateChanged{Lease: b.Lease, AtUnixSeconds: int64(b.At), State: toWire(leaseStates, b.State)}
	case *fact.LeaseStopped:
		return &logv1.LeaseStopped{Lease: b.Lease, AtUnixSeconds: int64(b.At), By: toWire(endedBys, b.By)}
	case *fact.DeviceDeclared:
		return &logv1.DeviceDeclared{Device: b.Device, AtUnixSeconds: int64(b.At), SaleableMilli: b.SaleableMilli}
	case *fact.NodeEnrolled:
		return &logv1.NodeEnrolled{Node: b.Node, PublicKey: b.PublicKey[:], By: b.By, Note: b.Note}
	case *fact.NodeRevoked:
		return &logv1.NodeRevoked{Node: b.Node, PublicKey: b.PublicKey[:], By: b.By, Note: b.Note}
	case *fact.RefusalWaived:
		return &logv1.RefusalWaived{Lease: b.Lease, FromUnixSeconds: int64(b.From), ToUnixSeconds: int64(b.To), By: b.By, Note: b.Note}
	case *fact.RefusalCarried:
		return &logv1.RefusalCarried{Contract: b.Contract, PeriodStartUnixSeconds: int64(b.PeriodStart), By: b.By, Note: b.Note}
	default:
		return pricedMessage(b)
	}
}

// pricedMessage writes the facts that prices and charges stand on besides contracts and leases; nil for the others.
func pricedMessage(b fact.Body) proto.Message {
	switch b := b.(type) {
	case *fact.PriceBookPublished:
		return &logv1.PriceBookPublished{Book: b.Book, EffectiveUnixSeconds: int64(b.Effective), Document: b.Document}
	case *fact.SpotPriceChanged:
		return &logv1.SpotPriceChanged{Index: b.Index, Region: b.Region, AtUnixSeconds: int64(b.At), Currency: b.Currency, Price: b.Price}
	case *fact.MeterRecorded:
		return &logv1.MeterRecorded{Contract: b.Contract, Meter: b.Meter, Resource: b.Resource, AtUnixSeconds: int64(b.At), Quantity: b.Quantity}
	case *fact.PackagePurchased:
		return &logv1.PackagePurchased{Contract: b.Contract, Package: b.Package, AtUnixSeconds: int64(b.At), Count: b.Count}
	case *fact.ContractTerminated:
		return &logv1.ContractTerminated{Contract: b.Contract, AtUnixSeconds: int64(b.At), By: toWire(endedBys, b.By)}
	case *fact.PackageEnded:
		return &logv1.PackageEnded{Contract: b.Contract, Purchase: b.Purchase, AtUnixSeconds: int64(b.At), By: toWire(endedBys, b.By)}
	default:
		return nil
	}
}

// statedBody is statedMessage backwards; nil, nil for the other messages.
func statedBody(m proto.Message) (fact.Body, error) {
	switch m := m.(type) {
	case *logv1.ClockDeclared:
		mode, err := fromWire(clockModes, m.GetMode())
		return &fact.ClockDeclared{Mode: mode}, err
	case *logv1.TimeResumed:
		return &fact.TimeResumed{At: span.Second(m.GetAtUnixSeconds()), By: m.GetBy()}, nil
	case *logv1.ContractSigned:
		return &fact.ContractSigned{Contract: m.GetContract(), Customer: m.GetCustomer(), Document: m.GetDocument()}, nil
	case *logv1.ContractAmended:
		return &fact.ContractAmended{
			Contract: m.GetContract(), Effective: span.Second(m.GetEffectiveUnixSeconds()), Document: m.GetDocument(),
		}, nil
	case *logv1.LeaseStarted:
		labels, err := labelsFromWire(m.GetLabels())
		return &fact.LeaseStarted{
			Lease: m.GetLease(), Customer: m.GetCustomer(), Contract: m.GetContract(), SKU: m.GetSku(), PricingMode: m.GetPricingMode(),
			Region: m.GetRegion(), ServiceTier: m.GetServiceTier(), Dedicated: m.GetDedicated(), At: span.Second(m.GetAtUnixSeconds()),
			Devices: sharesFromWire(m.GetDevices()), Count: m.GetCount(), ShareMilli: m.GetShareMilli(), Labels: labels,
		}, err
	case *logv1.LeaseResized:
		return &fact.LeaseResized{
			Lease: m.GetLease(), At: span.Second(m.GetAtUnixSeconds()), Devices: sharesFromWire(m.GetDevices()),
			Count: m.GetCount(), ShareMilli: m.GetShareMilli(),
		}, nil
	case *logv1.LeaseStateChanged:
		state, err := fromWire(leaseStates, m.GetState())
		return &fact.LeaseStateChanged{Lease: m.GetLease(), At: span.Second(m.GetAtUnixSeconds()), State: state}, err
	case *logv1.LeaseStopped:
		by, err := fromWire(endedBys, m.GetBy())
		return &fact.LeaseStopped{Lease: m.GetLease(), At: span.Second(m.GetAtUnixSeconds()), By: by}, err
	case *logv1.DeviceDeclared:
		return &fact.DeviceDeclared{Device: m.GetDevice(), At: span.Second(m.GetAtUnixSeconds()), SaleableMilli: m.GetSaleableMilli()}, nil
	case *logv1.NodeEnrolled:
		key, err := publicKey(m.GetPublicKey())
		return &fact.NodeEnrolled{Node: m.GetNode(), PublicKey: key, By: m.GetBy(), Note: m.GetNote()}, err
	case *logv1.NodeRevoked:
		key, err := publicKey(m.GetPublicKey())
		return &fact.NodeRevoked{Node: m.GetNode(), PublicKey: key, By: m.GetBy(), Note: m.GetNote()}, err
	case *logv1.RefusalWaived:
		return &fact.RefusalWaived{
			Lease: m.GetLease(), From: span.Second(m.GetFromUnixSeconds()), To: span.Second(m.GetToUnixSeconds()), By: m.GetBy(), Note: m.GetNote(),
		}, nil
	case *logv1.RefusalCarried:
		return &fact.RefusalCarried{
			Contract: m.GetContract(), PeriodStart: span.Second(m.GetPeriodStartUnixSeconds()), By: m.GetBy(), Note: m.GetNote(),
		}, nil
	default:
		return pricedBody(m)
	}
}

func publicKey(b []byte) (fact.PublicKey, error) {
	if len(b) != len(fact.PublicKey{}) {
		return fact.PublicKey{}, fmt.Errorf("%w: public_key has %d bytes; an Ed25519 key has %d", ErrBody, len(b), len(fact.PublicKey{}))
	}
	return fact.PublicKey(b), nil
}

// pricedBody is pricedMessage backwards; nil, nil for the other messages.
func pricedBody(m proto.Message) (fact.Body, error) {
	switch m := m.(type) {
	case *logv1.PriceBookPublished:
		return &fact.PriceBookPublished{Book: m.GetBook(), Effective: span.Second(m.GetEffectiveUnixSeconds()), Document: m.GetDocument()}, nil
	case *logv1.SpotPriceChanged:
		return &fact.SpotPriceChanged{
			Index: m.GetIndex(), Region: m.GetRegion(), At: span.Second(m.GetAtUnixSeconds()), Currency: m.GetCurrency(), Price: m.GetPrice(),
		}, nil
	case *logv1.MeterRecorded:
		return &fact.MeterRecorded{
			Contract: m.GetContract(), Meter: m.GetMeter(), Resource: m.GetResource(), At: span.Second(m.GetAtUnixSeconds()), Quantity: m.GetQuantity(),
		}, nil
	case *logv1.PackagePurchased:
		return &fact.PackagePurchased{Contract: m.GetContract(), Package: m.GetPackage(), At: span.Second(m.GetAtUnixSeconds()), Count: m.GetCount()}, nil
	case *logv1.ContractTerminated:
		by, err := fromWire(endedBys, m.GetBy())
		return &fact.ContractTerminated{Contract: m.GetContract(), At: span.Second(m.GetAtUnixSeconds()), By: by}, err
	case *logv1.PackageEnded:
		by, err := fromWire(endedBys, m.GetBy())
		return &fact.PackageEnded{Contract: m.GetContract(), Purchase: m.GetPurchase(), At: span.Second(m.GetAtUnixSeconds()), By: by}, err
	default:
		return nil, nil
	}
}

func sharesToWire(devices []fact.Share) []*logv1.Share {
	var all []*logv1.Share
	for _, d := range devices {
		all = append(all, &logv1.Share{Node: d.Node, Device: d.Device, ShareMilli: d.ShareMilli})
	}
	return all
}

func sharesFromWire(devices []*logv1.Share) []fact.Share {
	var all []fact.Share
	for _, d := range devices {
		all = append(all, fact.Share{Node: d.GetNode(), Device: d.GetDevice(), ShareMilli: d.GetShareMilli()})
	}
	return all
}

// labelsToWire lists labels by name. A protobuf map has no order of its own that other writers could follow.
func labelsToWire(labels map[string]string) []*logv1.Label {
	var all []*logv1.Label
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, &logv1.Label{Name: name, Value: labels[name]})
	}
	return all
}

func labelsFromWire(labels []*logv1.Label) (map[string]string, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(labels))
	for i, l := range labels {
		if i > 0 && l.GetName() <= labels[i-1].GetName() {
			return nil, fmt.Errorf("%w: label %q does not come after %q", ErrBody, l.GetName(), labels[i-1].GetName())
		}
		all[l.GetName()] = l.GetValue()
	}
	return all, nil
}
