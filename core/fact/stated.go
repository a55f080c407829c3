package fact

import "github.com/gpuhour/gpuhour/core/span"

// ClockMode says who publishes time: the first fact of every log.
type ClockMode string

// Wall time is held against the server's stamps; a scripted clock is published by an importer (demo, replays, tests).
const (
	Wall     ClockMode = "wall"
	Scripted ClockMode = "scripted"
)

// ClockDeclared is the log's first fact.
type ClockDeclared struct {
	Mode ClockMode `json:"mode" yaml:"mode"`
}

// TimeResumed lets a wall clock go on after a jump of over an hour.
type TimeResumed struct {
	At span.Second `json:"at" yaml:"at"`
	By string      `json:"by" yaml:"by"`
}

// ContractSigned enters a contract: the YAML document as it was signed, in force from its term's start.
type ContractSigned struct {
	Contract string `json:"contract" yaml:"contract"`
	Customer string `json:"customer" yaml:"customer"`
	Document string `json:"document" yaml:"document"`
}

// ContractAmended replaces the contract's document from an instant on; earlier seconds keep the version before.
type ContractAmended struct {
	Contract  string      `json:"contract" yaml:"contract"`
	Effective span.Second `json:"effective" yaml:"effective"`
	Document  string      `json:"document" yaml:"document"`
}

// Share is a part of a device held by a lease: 1000 milli is the whole device.
type Share struct {
	Node       string `json:"node" yaml:"node"`
	Device     string `json:"device" yaml:"device"`
	ShareMilli int64  `json:"share_milli" yaml:"share_milli"`
}

// LeaseStarted opens a lease. With no devices the lease is unplaced: Count devices of ShareMilli each bill, and
// have neither ghost nor overlap check.
type LeaseStarted struct {
	Lease       string            `json:"lease" yaml:"lease"`
	Customer    string            `json:"customer" yaml:"customer"`
	Contract    string            `json:"contract,omitempty" yaml:"contract"`
	SKU         string            `json:"sku" yaml:"sku"`
	PricingMode string            `json:"pricing_mode" yaml:"pricing_mode"`
	Region      string            `json:"region,omitempty" yaml:"region"`
	ServiceTier string            `json:"service_tier,omitempty" yaml:"service_tier"`
	Dedicated   bool              `json:"dedicated,omitempty" yaml:"dedicated"`
	At          span.Second       `json:"at" yaml:"at"`
	Devices     []Share           `json:"devices,omitempty" yaml:"devices"`
	Count       int64             `json:"count,omitempty" yaml:"count"`
	ShareMilli  int64             `json:"share_milli,omitempty" yaml:"share_milli"`
	Labels      map[string]string `json:"labels,omitempty" yaml:"labels"`
}

// LeaseResized replaces what the lease holds from an instant on. A resize is not a start.
type LeaseResized struct {
	Lease      string      `json:"lease" yaml:"lease"`
	At         span.Second `json:"at" yaml:"at"`
	Devices    []Share     `json:"devices,omitempty" yaml:"devices"`
	Count      int64       `json:"count,omitempty" yaml:"count"`
	ShareMilli int64       `json:"share_milli,omitempty" yaml:"share_milli"`
}

// LeaseState is what a lease does. What bills in it is the contract's word: of one that says nothing, running bills its GPUs, and suspended
// and stopped do not.
type LeaseState string

// The lease states.
const (
	Running   LeaseState = "running"
	Suspended LeaseState = "suspended"
	Halted    LeaseState = "stopped"
)

// LeaseStateChanged moves a lease between states; entering one that bills GPUs from one that does not is a start.
type LeaseStateChanged struct {
	Lease string      `json:"lease" yaml:"lease"`
	At    span.Second `json:"at" yaml:"at"`
	State LeaseState  `json:"state" yaml:"state"`
}

// EndedBy says who ended a lease; it decides whether a start minimum is charged.
type EndedBy string

// Who can end a lease.
const (
	ByCustomer EndedBy = "customer"
	ByProvider EndedBy = "provider"
	ByFault    EndedBy = "fault"
	ByArrears  EndedBy = "arrears"
	ByExpired  EndedBy = "expired"
)

// LeaseStopped closes a lease at the first second it no longer holds.
type LeaseStopped struct {
	Lease string      `json:"lease" yaml:"lease"`
	At    span.Second `json:"at" yaml:"at"`
	By    EndedBy     `json:"by" yaml:"by"`
}

// DeviceDeclared says how much of a device may be sold at once from an instant on, until the next declaration: what leases hold of it
// beyond that is refused. Without one it is 1000 milli, the device once. More oversells it, less keeps a part of it back.
type DeviceDeclared struct {
	Device        string      `json:"device" yaml:"device"`
	At            span.Second `json:"at" yaml:"at"`
	SaleableMilli int64       `json:"saleable_milli" yaml:"saleable_milli"`
}

// RefusalWaived gives a lease's refused time away for good: it is shown as waived and never billed.
type RefusalWaived struct {
	Lease string      `json:"lease" yaml:"lease"`
	From  span.Second `json:"from" yaml:"from"`
	To    span.Second `json:"to" yaml:"to"`
	By    string      `json:"by" yaml:"by"`
	Note  string      `json:"note" yaml:"note"`
}

// RefusalCarried lets a period close although some of its time is refused; when the cause goes, a correction bills it.
type RefusalCarried struct {
	Contract    string      `json:"contract" yaml:"contract"`
	PeriodStart span.Second `json:"period_start" yaml:"period_start"`
	By          string      `json:"by" yaml:"by"`
	Note        string      `json:"note" yaml:"note"`
}

// Type implements Body.
func (*ClockDeclared) Type() Type { return TypeClockDeclared }

// Type implements Body.
func (*TimeResumed) Type() Type { return TypeTimeResumed }

// Type implements Body.
func (*ContractSigned) Type() Type { return TypeContractSigned }

// Type implements Body.
func (*ContractAmended) Type() Type { return TypeContractAmended }

// Type implements Body.
func (*LeaseStarted) Type() Type { return TypeLeaseStarted }

// Type implements Body.
func (*LeaseResized) Type() Type { return TypeLeaseResized }

// Type implements Body.
func (*LeaseStateChanged) Type() Type { return TypeLeaseStateChanged }

// Type implements Body.
func (*LeaseStopped) Type() Type { return TypeLeaseStopped }

// Type implements Body.
func (*DeviceDeclared) Type() Type { return TypeDeviceDeclared }

// Type implements Body.
func (*RefusalWaived) Type() Type { return TypeRefusalWaived }

// Type implements Body.
func (*RefusalCarried) Type() Type { return TypeRefusalCarried }

// Entity implements Body.
func (*ClockDeclared) Entity() string { return "log" }

// Entity implements Body.
func (*TimeResumed) Entity() string { return "log" }

// Entity implements Body.
func (b *ContractSigned) Entity() string { return b.Contract }

// Entity implements Body.
func (b *ContractAmended) Entity() string { return b.Contract }

// Entity implements Body.
func (b *LeaseStarted) Entity() string { return b.Lease }

// Entity implements Body.
func (b *LeaseResized) Entity() string { return b.Lease }

// Entity implements Body.
func (b *LeaseStateChanged) Entity() string { return b.Lease }

// Entity implements Body.
func (b *LeaseStopped) Entity() string { return b.Lease }

// Entity implements Body.
func (b *DeviceDeclared) Entity() string { return b.Device }

// Entity implements Body.
func (b *RefusalWaived) Entity() string { return b.Lease }

// Entity implements Body.
func (b *RefusalCarried) Entity() string { return b.Contract }
