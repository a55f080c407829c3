package exporter

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Endpoint is one exporter. It implements collector.Unit. Its lock is never held while it waits for the exporter.
type Endpoint struct {
	client   *client
	mappings mappings
	vendor   Vendor
	fresh    freshness

	mu        sync.Mutex
	program   string
	driver    string
	about     []usage.Device // by rising name, as of the last Scan
	foreign   []string       // devices that are left to an endpoint before this one, or are too many
	left      string         // why, of the last of them
	announced []string       // devices of a page for which ErrChanged was said
	states    map[string]*state
	witnesses map[string]*witness
}

// Name implements collector.Unit: the address without a password.
func (e *Endpoint) Name() string { return e.client.url.Redacted() }

// Devices implements collector.Unit.
func (e *Endpoint) Devices() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, len(e.about))
	for i := range e.about {
		names[i] = e.about[i].Name
	}
	return names
}

// fetch gets a page and puts it together. A page without any device is an error: an exporter that starts shows one, and its
// devices are not gone.
func (e *Endpoint) fetch() (page, usage.Reason, error) {
	text, why, err := e.client.get()
	if err != nil {
		return page{}, why, err
	}
	p := e.mappings.read(text, e.vendor)
	if len(p.devices) == 0 {
		err = fmt.Errorf("read %s: the page shows no device in the series of %s; %s", e.Name(), e.programs(), pageRemedy)
		if len(p.bad) > 0 {
			err = fmt.Errorf("%w; %s", err, p.bad[0])
		}
		return p, usage.ReasonError, err
	}
	return p, usage.ReasonNone, nil
}

// What a person may do.
const (
	pageRemedy = "give the address of the exporter's own page, like http://127.0.0.1:9400/metrics, and look whether the exporter sees its devices"
	slowRemedy = "let the exporter refresh every second (dcgm-exporter: -c 1000; npu-exporter: -updateTime 1)"
)

// programs are the exporters whose series are looked for.
func (e *Endpoint) programs() string {
	if e.vendor != "" {
		return e.vendor.Program() + " (--vendor " + string(e.vendor) + "; without it the page tells whose it is)"
	}
	return fmt.Sprintf("%s, %s or %s", NVIDIA.Program(), AMD.Program(), Ascend.Program())
}

// adopt takes what a Scan found, or keeps what was there when it found nothing, and enters the endpoint as the owner of its
// devices.
func (e *Endpoint) adopt(p *page, err error, owners map[string]string) (program, driver string, about []usage.Device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.program, e.driver, e.announced = p.vendor.Program(), p.driver, nil
		kept := e.about
		e.about = nil
		for _, name := range p.names() {
			e.about = append(e.about, p.devices[name].describe(kept))
		}
		if p.torn { // it may have had more
			for _, d := range kept {
				if p.devices[d.Name] == nil {
					e.about = append(e.about, d)
				}
			}
		}
	}
	e.foreign, e.left = nil, ""
	e.about = slices.DeleteFunc(e.about, func(d usage.Device) bool {
		owner, twice := owners[d.Name]
		if twice {
			e.foreign = append(e.foreign, d.Name)
			e.left = fmt.Sprintf("device %s is shown by %s too, which is named first and measures it", d.Name, owner)
			return true
		}
		if len(owners) == usage.MaxBlocks {
			e.foreign = append(e.foreign, d.Name)
			e.left = fmt.Sprintf("device %s is one too many: a node has at most %d", d.Name, usage.MaxBlocks)
			return true
		}
		owners[d.Name] = e.Name()
		return false
	})
	slices.SortFunc(e.about, func(a, b usage.Device) int { return strings.Compare(a.Name, b.Name) })
	for name := range e.states {
		if !slices.ContainsFunc(e.about, func(d usage.Device) bool { return d.Name == name }) {
			delete(e.states, name)
		}
	}
	return e.program, e.driver, slices.Clone(e.about)
}

// Sample implements collector.Unit.
func (e *Endpoint) Sample(into []collector.Reading) ([]collector.Reading, error) {
	p, why, err := e.fetch()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		for _, d := range e.about {
			into = append(into, unknown(d.Name, why))
		}
		return into, &collector.NoAnswer{Reason: why, Err: err} // so that somebody is told, also where no device is known yet
	}
	stale := e.stale(&p)
	for _, known := range e.about {
		d := p.devices[known.Name]
		switch {
		case d == nil && p.torn:
			into = append(into, unknown(known.Name, usage.ReasonError))
		case d == nil:
			into = append(into, unknown(known.Name, usage.ReasonLost))
		default:
			into = append(into, e.state(known.Name).reading(d, p.counters, &e.fresh, stale[d.whole]))
		}
	}
	if err := e.changed(&p); err != nil {
		return into, err
	}
	return into, e.partly(&p, into)
}

// partly tells what of a page was not used, with its place and what to do about it.
func (e *Endpoint) partly(p *page, readings []collector.Reading) error {
	var all []string
	if e.left != "" {
		all = append(all, e.left)
	}
	if n := len(p.bad) + p.more; n > 0 {
		all = append(all, fmt.Sprintf("%d of its lines, among them %s", n, p.bad[0]))
	}
	for i := range readings {
		r := &readings[i]
		if slices.ContainsFunc([]collector.Metric{r.Busy, r.Memory, r.Power, r.Energy, r.Throttle}, func(m collector.Metric) bool { return m.Reason == usage.ReasonStale }) {
			all = append(all, fmt.Sprintf("device %s, of which the page shows what it showed before; %s", r.Device, slowRemedy))
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("read %s: %w: %s", e.Name(), collector.ErrPartly, strings.Join(all, "; "))
}

func (e *Endpoint) state(name string) *state {
	s, ok := e.states[name]
	if !ok {
		s = &state{}
		e.states[name] = s
	}
	return s
}

// stale judges each GPU of a page together with its slices.
func (e *Endpoint) stale(p *page) map[string]bool {
	groups := map[string][]*device{}
	for _, name := range p.names() {
		d := p.devices[name]
		groups[d.whole] = append(groups[d.whole], d)
	}
	stale := make(map[string]bool, len(groups))
	for name := range e.witnesses {
		if groups[name] == nil && !p.torn {
			delete(e.witnesses, name)
		}
	}
	for name, group := range groups {
		w, ok := e.witnesses[name]
		if !ok {
			w = &witness{}
			e.witnesses[name] = w
		}
		stale[name] = e.fresh.watch(w, group)
	}
	return stale
}

// changed says once, until the next Scan, that the page shows other devices than the Scan found.
func (e *Endpoint) changed(p *page) error {
	if p.torn {
		return nil
	}
	names := slices.DeleteFunc(p.names(), func(name string) bool { return slices.Contains(e.foreign, name) })
	same := slices.EqualFunc(names, e.about, func(name string, d usage.Device) bool { return name == d.Name })
	if same || slices.Equal(names, e.announced) {
		return nil
	}
	e.announced = names
	return collector.ErrChanged
}

// Capabilities implements collector.Unit.
func (e *Endpoint) Capabilities() []collector.Capability {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []collector.Capability
	for i := range e.about {
		all = e.capabilities(&e.about[i], all)
	}
	return all
}

var _ collector.Hardware = (*Exporters)(nil)
