package exporter

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Options say which endpoints are read and how patiently. The zero values of all but URLs are the defaults.
type Options struct {
	URLs      []string
	Vendor    Vendor            // empty: a page's series decide
	MaxAge    time.Duration     // of a line that says its time; 30 s
	Timeout   time.Duration     // of a page; 650 ms: less than a second's sampling has (package live)
	MaxBody   int64             // bytes of a page; 4 MiB: eight GPUs in seven slices each take one
	Transport http.RoundTripper // for other roots of trust; plain HTTP and the system's when nil
	Now       func() time.Time  // judges MaxAge; time.Now when nil
}

func (o Options) withDefaults() Options {
	if o.MaxAge == 0 {
		o.MaxAge = 30 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 650 * time.Millisecond
	}
	if o.MaxBody == 0 {
		o.MaxBody = 4 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Exporters is live hardware behind one or several endpoints. It implements collector.Hardware.
type Exporters struct {
	units []*Endpoint

	mu       sync.Mutex // guards topology; a Scan holds it only to write, never while it waits for an endpoint
	topology usage.Topology
}

// Open prepares the endpoints and asks none: the first Scan does.
func Open(o Options) (*Exporters, error) {
	o = o.withDefaults()
	if len(o.URLs) == 0 {
		return nil, errors.New("no endpoint is named; give the exporter's address, like http://127.0.0.1:9400/metrics")
	}
	if o.MaxAge <= 0 || o.Timeout <= 0 || o.MaxBody <= 0 {
		return nil, fmt.Errorf("lines are old after %s, time limit %s, body limit %d: all are above 0", o.MaxAge, o.Timeout, o.MaxBody)
	}
	ms := allMappings()
	x := &Exporters{}
	for _, text := range o.URLs {
		u, err := endpointURL(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(x.units, func(e *Endpoint) bool { return e.client.url.String() == u.String() }) {
			return nil, fmt.Errorf("endpoint %s is named twice", u.Redacted())
		}
		x.units = append(x.units, &Endpoint{
			client: newClient(u, o), mappings: ms, vendor: o.Vendor,
			fresh:  freshness{o.MaxAge, o.Now, maphash.MakeSeed()},
			states: map[string]*state{}, witnesses: map[string]*witness{},
		})
	}
	return x, nil
}

// Topology implements collector.Hardware.
func (x *Exporters) Topology() usage.Topology {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.topology
	t.Devices = slices.Clone(t.Devices)
	return t
}

// Scan asks every endpoint at once which devices it has. One that does not answer keeps those that it had. It is an error when
// no endpoint ever answered. A device that two endpoints show belongs to the one that is named first.
func (x *Exporters) Scan() ([]collector.Unit, error) {
	pages, errs := make([]page, len(x.units)), make([]error, len(x.units))
	var all sync.WaitGroup
	for i, e := range x.units {
		all.Go(func() { pages[i], _, errs[i] = e.fetch() })
	}
	all.Wait()
	owners := map[string]string{}
	units := make([]collector.Unit, 0, len(x.units))
	var t usage.Topology
	var programs []string
	for i, e := range x.units {
		program, driver, devices := e.adopt(&pages[i], errs[i], owners)
		t.Devices = append(t.Devices, devices...)
		if program != "" && !slices.Contains(programs, program) {
			programs = append(programs, program)
		}
		if t.Driver == "" {
			t.Driver = driver
		}
		units = append(units, e)
	}
	if len(t.Devices) == 0 {
		return nil, fmt.Errorf("no exporter has shown a device yet: %w", errors.Join(errs...))
	}
	t.Source = strings.Join(programs, ", ")
	slices.SortFunc(t.Devices, func(a, b usage.Device) int { return strings.Compare(a.Name, b.Name) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.topology = t
	return units, nil
}

// Close implements collector.Hardware.
func (x *Exporters) Close() error {
	for _, e := range x.units {
		e.client.http.CloseIdleConnections()
	}
	return nil
}
