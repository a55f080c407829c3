package fact

import (
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
)

// PriceBookPublished states a provider's list prices: a YAML document with currency and rates, in force from an instant until
// the next one of the same name. A contract refers to a book by name and overrides what it states itself.
type PriceBookPublished struct {
	Book      string      `json:"book" yaml:"book"`
	Effective span.Second `json:"effective" yaml:"effective"`
	Document  string      `json:"document" yaml:"document"`
}

// SpotPriceChanged is a tick of a spot index: its price in a region from an instant until the next tick. It is stated only when
// the price changes.
type SpotPriceChanged struct {
	Index    string      `json:"index" yaml:"index"`
	Region   string      `json:"region,omitempty" yaml:"region"`
	At       span.Second `json:"at" yaml:"at"`
	Currency string      `json:"currency" yaml:"currency"` // ISO 4217
	Price    string      `json:"price" yaml:"price"`       // an exact amount and its unit, such as 1.2345/gpu-hour
}

// MeterRecorded is a reading of something metered other than GPU time: storage, egress, training steps. What a quantity means
// (a difference or a counter, a sum or a peak) is declared by the contract's meter of that name.
type MeterRecorded struct {
	Contract string      `json:"contract" yaml:"contract"`
	Meter    string      `json:"meter" yaml:"meter"`
	Resource string      `json:"resource,omitempty" yaml:"resource"` // what was metered: a volume, a user, a job
	At       span.Second `json:"at" yaml:"at"`
	Quantity string      `json:"quantity" yaml:"quantity"` // an exact decimal in the meter's unit
}

// PackagePurchased buys packages of the contract that run from an instant on, side by side, each for one unit of its time. Their
// fee is due then.
type PackagePurchased struct {
	Contract string      `json:"contract" yaml:"contract"`
	Package  string      `json:"package" yaml:"package"`
	At       span.Second `json:"at" yaml:"at"`
	Count    int64       `json:"count" yaml:"count"` // how many are bought, at least 1
}

// PackageEnded ends what one purchase bought before its time is over: from an instant on it covers nothing. What becomes of its fee is
// for the package's early_end to say.
type PackageEnded struct {
	Contract string      `json:"contract" yaml:"contract"`
	Purchase string      `json:"purchase" yaml:"purchase"` // key of the package.purchased fact
	At       span.Second `json:"at" yaml:"at"`
	By       EndedBy     `json:"by" yaml:"by"` // customer or provider
}

// ContractTerminated ends a contract's term at an instant, before the end that was agreed. What is due for it is for the contract's
// termination clause to say; a contract without one is amended instead.
type ContractTerminated struct {
	Contract string      `json:"contract" yaml:"contract"`
	At       span.Second `json:"at" yaml:"at"`
	By       EndedBy     `json:"by" yaml:"by"` // customer or provider
}

// Type implements Body.
func (*PriceBookPublished) Type() Type { return TypePriceBookPublished }

// Type implements Body.
func (*SpotPriceChanged) Type() Type { return TypeSpotPriceChanged }

// Type implements Body.
func (*MeterRecorded) Type() Type { return TypeMeterRecorded }

// Type implements Body.
func (*PackagePurchased) Type() Type { return TypePackagePurchased }

// Type implements Body.
func (*PackageEnded) Type() Type { return TypePackageEnded }

// Type implements Body.
func (*ContractTerminated) Type() Type { return TypeContractTerminated }

// Entity implements Body.
func (b *PriceBookPublished) Entity() string { return b.Book }

// Entity implements Body.
func (b *SpotPriceChanged) Entity() string { return b.Index }

// Entity implements Body.
func (b *MeterRecorded) Entity() string { return b.Contract }

// Entity implements Body.
func (b *PackagePurchased) Entity() string { return b.Contract }

// Entity implements Body.
func (b *PackageEnded) Entity() string { return b.Contract }

// Entity implements Body.
func (b *ContractTerminated) Entity() string { return b.Contract }

// Validate implements Body.
func (b *PriceBookPublished) Validate() error {
	return errors.Join(name("book", b.Book), instant("effective", b.Effective), document(b.Document))
}

// Validate implements Body. The price is read where it is used: this package knows no money.
func (b *SpotPriceChanged) Validate() error {
	return errors.Join(name("index", b.Index), text("region", b.Region, MaxNameBytes), instant("at", b.At), name("currency", b.Currency), name("price", b.Price))
}

// Validate implements Body.
func (b *MeterRecorded) Validate() error {
	return errors.Join(name("contract", b.Contract), name("meter", b.Meter), text("resource", b.Resource, MaxNameBytes), instant("at", b.At),
		name("quantity", b.Quantity))
}

// Validate implements Body.
func (b *PackagePurchased) Validate() error {
	err := errors.Join(name("contract", b.Contract), name("package", b.Package), instant("at", b.At))
	if b.Count < 1 || b.Count > MaxDevices {
		err = errors.Join(err, errors.New("count is out of range; it goes from 1 to 65536"))
	}
	return err
}

// Validate implements Body.
func (b *PackageEnded) Validate() error {
	return errors.Join(name("contract", b.Contract), key("purchase", b.Purchase), instant("at", b.At), side(b.By))
}

// Validate implements Body.
func (b *ContractTerminated) Validate() error {
	return errors.Join(name("contract", b.Contract), instant("at", b.At), side(b.By))
}

// side takes who can end an agreement: one of the two that made it.
func side(by EndedBy) error {
	if by != ByCustomer && by != ByProvider {
		return fmt.Errorf("by is %q; write customer or provider", by)
	}
	return nil
}
