package fact

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
)

// Limits of what a fact may state.
const (
	MaxNameBytes     = 256
	MaxKeyBytes      = 1024 // a key is put together from names
	MaxNoteBytes     = 4096
	MaxLabels        = 64
	MaxDevices       = 65536
	MaxDocument      = 256 << 10
	WholeShareMilli  = 1000
	MaxSaleableMilli = 64 * WholeShareMilli
)

// latest is the last second of the year 9999, the last one that RFC 3339 can write.
const latest span.Second = 253402300799

func name(field, v string) error {
	if v == "" {
		return fmt.Errorf("%s is missing", field)
	}
	return text(field, v, MaxNameBytes)
}

// key is a name that is put together from names.
func key(field, v string) error {
	if v == "" {
		return fmt.Errorf("%s is missing", field)
	}
	return text(field, v, MaxKeyBytes)
}

// text may be empty.
func text(field, v string, limit int) error {
	switch {
	case len(v) > limit:
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", field, len(v), limit)
	case !utf8.ValidString(v):
		return fmt.Errorf("%s is not valid UTF-8", field)
	case strings.ContainsFunc(v, unicode.IsControl):
		return fmt.Errorf("%s %q holds a control character", field, v)
	}
	return nil
}

func instant(field string, at span.Second) error {
	switch {
	case at <= 0 || at == span.Open:
		return fmt.Errorf("%s is missing; write it like 2026-02-28T13:00:00Z", field)
	case at > latest:
		return fmt.Errorf("%s is %d seconds after 1970, which is past the year 9999", field, at)
	}
	return nil
}

func labels(all map[string]string) error {
	if len(all) > MaxLabels {
		return fmt.Errorf("%d labels; at most %d are allowed", len(all), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if err := errors.Join(name("a label's name", k), text(fmt.Sprintf("label %q", k), all[k], MaxNameBytes)); err != nil {
			return err
		}
	}
	return nil
}

// holding judges devices, or count and share of an unplaced lease.
func holding(devices []Share, count, share int64) error {
	if len(devices) == 0 {
		if count < 1 || count > MaxDevices {
			return fmt.Errorf("count is %d; an unplaced lease states a count from 1 to %d, a placed one its devices", count, MaxDevices)
		}
		return shareMilli("share_milli", share)
	}
	if count != 0 || share != 0 {
		return errors.New("devices and count or share_milli are both given; a placed lease states its share per device")
	}
	if len(devices) > MaxDevices {
		return fmt.Errorf("%d devices; at most %d are allowed", len(devices), MaxDevices)
	}
	held := make(map[string]bool, len(devices))
	for i, d := range devices {
		if err := errors.Join(name(fmt.Sprintf("devices[%d].node", i), d.Node), name(fmt.Sprintf("devices[%d].device", i), d.Device),
			shareMilli(fmt.Sprintf("devices[%d].share_milli", i), d.ShareMilli)); err != nil {
			return err
		}
		if held[d.Device] {
			return fmt.Errorf("devices[%d]: device %q is listed twice; add its shares up", i, d.Device)
		}
		held[d.Device] = true
	}
	return nil
}

func shareMilli(field string, v int64) error {
	if v < 1 || v > WholeShareMilli {
		return fmt.Errorf("%s is %d; it goes from 1 to %d (a whole device)", field, v, WholeShareMilli)
	}
	return nil
}

// Validate judges the key and the body taken alone.
func (f Fact) Validate() error {
	if err := key("key", f.Key); err != nil {
		return fmt.Errorf("%w; the key names the statement, so that a repeat is seen as one", err)
	}
	if err := f.Body.Validate(); err != nil {
		return fmt.Errorf("%s: %w", f.Body.Type(), err)
	}
	return nil
}

// Validate implements Body.
func (b *ClockDeclared) Validate() error {
	if b.Mode != Wall && b.Mode != Scripted {
		return fmt.Errorf("mode is %q; write wall or scripted", b.Mode)
	}
	return nil
}

// Validate implements Body.
func (b *TimeResumed) Validate() error { return errors.Join(instant("at", b.At), name("by", b.By)) }

func document(v string) error {
	if v == "" || len(v) > MaxDocument || !utf8.ValidString(v) {
		return fmt.Errorf("document has %d bytes; it is UTF-8 text of 1 to %d bytes", len(v), MaxDocument)
	}
	return nil
}

// Validate implements Body.
func (b *ContractSigned) Validate() error {
	return errors.Join(name("contract", b.Contract), name("customer", b.Customer), document(b.Document))
}

// Validate implements Body.
func (b *ContractAmended) Validate() error {
	return errors.Join(name("contract", b.Contract), instant("effective", b.Effective), document(b.Document))
}

// Validate implements Body.
func (b *LeaseStarted) Validate() error {
	err := errors.Join(name("lease", b.Lease), name("customer", b.Customer), name("sku", b.SKU), name("pricing_mode", b.PricingMode),
		instant("at", b.At), holding(b.Devices, b.Count, b.ShareMilli), labels(b.Labels))
	return errors.Join(err, text("contract", b.Contract, MaxNameBytes), text("region", b.Region, MaxNameBytes),
		text("service_tier", b.ServiceTier, MaxNameBytes))
}

// Validate implements Body.
func (b *LeaseResized) Validate() error {
	return errors.Join(name("lease", b.Lease), instant("at", b.At), holding(b.Devices, b.Count, b.ShareMilli))
}

// Validate implements Body.
func (b *LeaseStateChanged) Validate() error {
	err := errors.Join(name("lease", b.Lease), instant("at", b.At))
	if b.State != Running && b.State != Suspended && b.State != Halted {
		err = errors.Join(err, fmt.Errorf("state is %q; write running, suspended or stopped", b.State))
	}
	return err
}

// Validate implements Body.
func (b *LeaseStopped) Validate() error {
	err := errors.Join(name("lease", b.Lease), instant("at", b.At))
	switch b.By {
	case ByCustomer, ByProvider, ByFault, ByArrears, ByExpired:
		return err
	default:
		return errors.Join(err, fmt.Errorf("by is %q; write customer, provider, fault, arrears or expired", b.By))
	}
}

// Validate implements Body. A device of which nothing may be sold is one without leases: that is not declared.
func (b *DeviceDeclared) Validate() error {
	err := errors.Join(name("device", b.Device), instant("at", b.At))
	if b.SaleableMilli < 1 || b.SaleableMilli > MaxSaleableMilli {
		err = errors.Join(err, fmt.Errorf("saleable_milli is %d; it goes from 1 to %d, and %d sells the device once", b.SaleableMilli, MaxSaleableMilli, WholeShareMilli))
	}
	return err
}

// Validate implements Body.
func (b *RefusalWaived) Validate() error {
	err := errors.Join(name("lease", b.Lease), instant("from", b.From), instant("to", b.To), name("by", b.By),
		text("note", b.Note, MaxNoteBytes))
	if err == nil && b.To <= b.From {
		err = errors.Join(err, fmt.Errorf("to %s is not after from %s", b.To, b.From))
	}
	return err
}

// Validate implements Body.
func (b *RefusalCarried) Validate() error {
	return errors.Join(name("contract", b.Contract), instant("period_start", b.PeriodStart), name("by", b.By),
		text("note", b.Note, MaxNoteBytes))
}

// Validate implements Body.
func (b *CustomerHalted) Validate() error {
	return errors.Join(name("customer", b.Customer), name("reason", b.Reason))
}

// Validate implements Body.
func (b *CutRequested) Validate() error { return errors.Join(name("cut", b.Cut), instant("at", b.At)) }

// Validate implements Body.
func (b *CutDone) Validate() error {
	err := errors.Join(name("cut", b.Cut), instant("at", b.At))
	for i, t := range b.Totals {
		field := fmt.Sprintf("totals[%d].", i)
		err = errors.Join(err, text(field+"contract", t.Contract, MaxNameBytes), text(field+"customer", t.Customer, MaxNameBytes))
		if t.PeriodStart < 0 || t.PeriodStart > latest {
			err = errors.Join(err, fmt.Errorf("%speriod_start lies outside 1970 to 9999", field))
		}
		if t.LeasedMilliGPUSeconds < 0 {
			err = errors.Join(err, fmt.Errorf("%sleased_milli_gpu_seconds is %d; time held is not negative", field, t.LeasedMilliGPUSeconds))
		}
	}
	return err
}

// Validate implements Body.
func (b *PeriodClosed) Validate() error {
	err := errors.Join(name("contract", b.Contract), name("cut", b.Cut), instant("period_start", b.PeriodStart),
		instant("period_end", b.PeriodEnd))
	if err == nil && b.PeriodEnd <= b.PeriodStart {
		err = fmt.Errorf("period_end %s is not after period_start %s", b.PeriodEnd, b.PeriodStart)
	}
	if b.N < 0 {
		err = errors.Join(err, fmt.Errorf("n is %d; closings count from 0", b.N))
	}
	return err
}

// Validate implements Body.
func (b *InvoiceIssued) Validate() error {
	err := errors.Join(name("series", b.Series), name("customer", b.Customer), key("closing", b.Closing))
	if b.Number == 0 {
		err = errors.Join(err, errors.New("number is missing; invoices of a series count from 1"))
	}
	if len(b.Document) == 0 {
		err = errors.Join(err, errors.New("document is missing"))
	}
	return err
}

// Validate implements Body.
func (b *InvoiceRecovered) Validate() error {
	issued := InvoiceIssued{Series: b.Series, Number: b.Number, Customer: b.Customer, Closing: b.Closing, Document: b.Document}
	return errors.Join(incarnation(b.Incarnation), issued.Validate())
}

// Validate implements Body.
func (b *LogRecovered) Validate() error {
	err := errors.Join(incarnation(b.Incarnation), name("by", b.By), text("reason", b.Reason, MaxNoteBytes))
	if b.Reason == "" {
		err = errors.Join(err, errors.New("reason is missing; say what happened to the log"))
	}
	return err
}

func incarnation(n uint64) error {
	if n < 2 {
		return fmt.Errorf("incarnation is %d; a log is born in its first, and recovered ones count from 2", n)
	}
	return nil
}

// Validate implements Body.
func (b *Alert) Validate() error {
	err := errors.Join(name("rule", b.Rule), name("scope", b.Scope), name("target", b.Target), name("customer", b.Customer), instant("at", b.At))
	if b.WindowSeconds < 0 {
		err = errors.Join(err, fmt.Errorf("window_seconds is %d; a window is not negative", b.WindowSeconds))
	}
	return errors.Join(err, permille("busy_permille", b.BusyPermille), permille("known_permille", b.KnownPermille))
}

func permille(field string, v int64) error {
	if v < 0 || v > 1000 {
		return fmt.Errorf("%s is %d; it goes from 0 to 1000", field, v)
	}
	return nil
}
