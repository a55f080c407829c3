package exporter_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/exporter"
)

// server plays an exporter: it serves what was put into it last.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	serve http.HandlerFunc
}

func serve(t *testing.T, page string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		handler := s.serve
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	s.page(page)
	return s
}

func (s *server) play(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = h
}

func (s *server) page(text string) {
	s.play(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func open(t *testing.T, o exporter.Options) (*exporter.Exporters, *exporter.Endpoint) {
	t.Helper()
	x, err := exporter.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	units, err := x.Scan()
	if err != nil {
		t.Fatal(err)
	}
	return x, units[0].(*exporter.Endpoint)
}

func sample(t *testing.T, e collector.Unit) []collector.Reading {
	t.Helper()
	r, err := e.Sample(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// failing samples an endpoint without a page: it says why, beside readings of which nothing is known.
func failing(t *testing.T, e *exporter.Endpoint, why usage.Reason, says string) []collector.Reading {
	t.Helper()
	r, err := e.Sample(nil)
	var none *collector.NoAnswer
	if !errors.As(err, &none) || none.Reason != why || !strings.Contains(err.Error(), e.Name()) || !strings.Contains(err.Error(), says) {
		t.Fatalf("error %v; want reason %d, the address, and %q", err, why, says)
	}
	return r
}

func allUnknown(t *testing.T, r collector.Reading, why usage.Reason) {
	t.Helper()
	want := collector.Unknown(why)
	if r.Seen() || r.Busy != want || r.Memory != want || r.Energy != want {
		t.Fatalf("%+v; want all unknown for reason %d", r, why)
	}
}

const two = `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} %d
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-a"} %d
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-b"} 0
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-b"} %d
`

// TestFaultsOfAnEndpoint: what each fault makes of the devices that are known, never a zero, and that all is well after it.
func TestFaultsOfAnEndpoint(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	other := serve(t, fmt.Sprintf(two, 1, 2, 3))
	for name, c := range map[string]struct {
		play http.HandlerFunc
		why  usage.Reason
		says string
	}{
		"hangs":        {hang, usage.ReasonTimeout, "look whether it hangs"},
		"hangs inside": {func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); hang(w, r) }, usage.ReasonTimeout, "deadline"},
		"500":          {status(500), usage.ReasonError, "500 Internal Server Error; give the address"},
		"401":          {status(401), usage.ReasonPermission, "name and password"},
		"403":          {status(403), usage.ReasonPermission, "403"},
		"sends on":     {http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP, usage.ReasonError, "give the address of the exporter itself"},
		"sends round":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"/", http.StatusFound) }, usage.ReasonError, "more than 3 times"},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} 1`)
		}, usage.ReasonError, "unexpected EOF"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("# x\n", 1000))
		}, usage.ReasonError, "longer than"},
		"starts":   {func(http.ResponseWriter, *http.Request) {}, usage.ReasonError, "no device"},
		"web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\n</html>\n") }, usage.ReasonError, "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, fmt.Sprintf(two, 50, 1, 1))
			_, e := open(t, exporter.Options{URLs: []string{s.URL}, Timeout: 300 * time.Millisecond, MaxBody: 2000})
			s.play(c.play)
			got := failing(t, e, c.why, c.says)
			if len(got) != 2 || got[0].Device != "GPU-a" || got[1].Device != "GPU-b" {
				t.Fatalf("%+v", got)
			}
			allUnknown(t, got[0], c.why)
			allUnknown(t, got[1], c.why)
			s.page(fmt.Sprintf(two, 51, 2, 2))
			if got := sample(t, e); got[0].Busy != collector.Known(51) || got[1].Busy != collector.Known(0) {
				t.Fatalf("after the fault: %+v", got)
			}
		})
	}
	t.Run("is gone", func(t *testing.T) {
		s := serve(t, fmt.Sprintf(two, 50, 1, 1))
		x, e := open(t, exporter.Options{URLs: []string{s.URL}})
		s.Close()
		for _, r := range failing(t, e, usage.ReasonError, "start the exporter") {
			allUnknown(t, r, usage.ReasonError)
		}
		if units, err := x.Scan(); err != nil || len(units) != 1 || len(e.Devices()) != 2 {
			t.Fatalf("a scan without an answer forgets the devices: %v, %v", err, e.Devices())
		}
	})
}

func TestNothingEverAnswered(t *testing.T) {
	s := serve(t, "")
	x, err := exporter.Open(exporter.Options{URLs: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Scan(); err == nil || !strings.Contains(err.Error(), s.URL) || !strings.Contains(err.Error(), "dcgm-exporter") {
		t.Fatalf("error %v", err)
	}
	for _, o := range []exporter.Options{
		{}, {URLs: []string{"ftp://x"}}, {URLs: []string{"a:1", "http://a:1/metrics"}}, {URLs: []string{"a"}, MaxAge: -1}, {URLs: []string{":"}},
	} {
		if _, err := exporter.Open(o); err == nil {
			t.Errorf("%+v opens", o)
		}
	}
}

// TestDevicesComeAndGo: a device that vanished is lost, one that came is not yet read, and a scan is asked for once.
func TestDevicesComeAndGo(t *testing.T) {
	s := serve(t, fmt.Sprintf(two, 1, 1, 1))
	x, e := open(t, exporter.Options{URLs: []string{s.URL}})
	sample(t, e)
	s.page("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-c\"} 9\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 2\n")
	for i, want := range []error{collector.ErrChanged, nil} {
		got, err := e.Sample(nil)
		if !errors.Is(err, want) || len(got) != 2 || got[0].Busy != collector.Known(2) {
			t.Fatalf("page %d: %+v, %v", i, got, err)
		}
		allUnknown(t, got[1], usage.ReasonLost)
	}
	if _, err := x.Scan(); err != nil || !slices.Equal(e.Devices(), []string{"GPU-a", "GPU-c"}) {
		t.Fatalf("%v, %v", e.Devices(), err)
	}
	if got := sample(t, e); got[1].Device != "GPU-c" || got[1].Busy != collector.Known(9) {
		t.Fatalf("%+v", got)
	}
	s.page("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 2\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-c\"} 1") // torn: 1 may have been 100
	if _, err := x.Scan(); err != nil || !slices.Equal(e.Devices(), []string{"GPU-a", "GPU-c"}) {
		t.Fatalf("a scan of a torn page: %v, %v", e.Devices(), err)
	}
	got, err := e.Sample(nil)
	allUnknown(t, got[1], usage.ReasonError)
	if got[0].Busy != collector.Known(2) || !errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), "line 2: the page ends inside this line") {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestOneConnectionWithAPassword: pages come over one connection, a redirect on the same host is followed, and no error or name
// shows the password.
func TestOneConnectionWithAPassword(t *testing.T) {
	s := serve(t, "")
	var mu sync.Mutex
	connections, pages := map[string]bool{}, 0
	s.play(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.RemoteAddr] = true
		switch user, password, _ := r.BasicAuth(); {
		case user != "meter" || password != "secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/metrics":
			http.Redirect(w, r, "/all", http.StatusFound)
		default:
			pages++
			_, _ = fmt.Fprintf(w, two, 1, len(connections), pages)
		}
	})
	address := func(password string) string { return strings.Replace(s.URL, "//", "//meter:"+password+"@", 1) }
	_, e := open(t, exporter.Options{URLs: []string{address("secret")}})
	for range 5 {
		got, _ := e.Sample(nil)
		mu.Lock()
		if got[1].Energy != collector.Known(int64(pages)) || len(connections) != 1 {
			t.Fatalf("%+v", got)
		}
		mu.Unlock()
	}
	if strings.Contains(e.Name(), "secret") {
		t.Fatal(e.Name())
	}
	wrong, err := exporter.Open(exporter.Options{URLs: []string{address("hidden")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Scan(); err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "401") {
		t.Fatal(err)
	}
}

// TestNoConnectionIsLeft: of an address that takes connections and never speaks TLS each attempt ends with its second.
func TestNoConnectionIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x, err := exporter.Open(exporter.Options{URLs: []string{"https://" + l.Addr().String()}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := x.Scan(); err == nil || !strings.Contains(err.Error(), "look whether it hangs") {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatalf("the connection stays open: %v", err)
		}
	}
}

// TestAScanDoesNotWaitForAHangingSample, and the other way round.
func TestAScanDoesNotWaitForAHangingSample(t *testing.T) {
	s := serve(t, fmt.Sprintf(two, 1, 1, 1))
	x, e := open(t, exporter.Options{URLs: []string{s.URL}, Timeout: time.Minute})
	hangs, free := make(chan struct{}), make(chan struct{})
	s.play(func(w http.ResponseWriter, _ *http.Request) {
		close(hangs)
		<-free
		_, _ = fmt.Fprintf(w, two, 3, 3, 3)
	})
	done := make(chan []collector.Reading)
	go func() {
		r, _ := e.Sample(nil)
		done <- r
	}()
	<-hangs
	s.page(fmt.Sprintf(two, 2, 2, 2))
	if _, err := x.Scan(); err != nil || len(e.Devices()) != 2 || len(e.Capabilities()) == 0 || len(x.Topology().Devices) != 2 {
		t.Fatal(err)
	}
	close(free)
	if r := <-done; len(r) != 2 || r[0].Busy != collector.Known(3) {
		t.Fatalf("%+v", r)
	}
}

// TestMoreDevicesThanANodeHas: the first ones are read, and the error says that there are more.
func TestMoreDevicesThanANodeHas(t *testing.T) {
	var urls []string
	for _, name := range []string{"a", "b"} {
		var page strings.Builder
		for i := range usage.MaxBlocks/2 + 1 {
			fmt.Fprintf(&page, "DCGM_FI_DEV_GPU_UTIL{UUID=\"%s-%04d\"} 1\n", name, i)
		}
		urls = append(urls, serve(t, page.String()).URL)
	}
	x, _ := open(t, exporter.Options{URLs: urls})
	units, err := x.Scan()
	if err != nil || len(x.Topology().Devices) != usage.MaxBlocks {
		t.Fatalf("%d devices, %v", len(x.Topology().Devices), err)
	}
	if r, err := units[1].Sample(nil); len(r) != usage.MaxBlocks/2-1 || !errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), "one too many") {
		t.Fatalf("%d readings, %v", len(r), err)
	}
}

func TestADeviceOfTwoEndpointsIsReadOnce(t *testing.T) {
	one, other := serve(t, fmt.Sprintf(two, 1, 1, 1)), serve(t, fixture(t, "ascend-chips.prom")+"\n")
	third := serve(t, fmt.Sprintf(two, 7, 7, 7)+"DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-z\"} 7\n")
	x, _ := open(t, exporter.Options{URLs: []string{one.URL, other.URL, third.URL}})
	units, err := x.Scan()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, e := range units {
		got = append(got, e.Devices()...)
		if _, err := e.Sample(nil); i == 2 && (!errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), "named first")) {
			t.Fatal(err)
		}
	}
	want := []string{
		"GPU-a", "GPU-b", "A1000000-00000000-00000000-00000000-00000001", "B2000000-00000000-00000000-00000000-00000002",
		"B2000000-00000000-00000000-00000000-00000002/100", "GPU-z",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	top := x.Topology()
	b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1, Topology: &top}
	if err := b.Validate(); err != nil || top.Source != "dcgm-exporter, npu-exporter" || len(top.Devices) != 6 {
		t.Fatalf("%+v, %v", top, err)
	}
}

func capability(e *exporter.Endpoint, metric string) collector.Capability {
	for _, c := range e.Capabilities() {
		if c.Metric == metric {
			return c
		}
	}
	return collector.Capability{}
}

// TestCapabilitiesOfASlice: its witness is its GPU's, and what it lacks it is told how to get.
func TestCapabilitiesOfASlice(t *testing.T) {
	s := serve(t, strings.ReplaceAll(fixture(t, "dcgm-mig.prom"), "DCGM_FI_PROF_GR", "OTHER"))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	sample(t, e)
	seen := 0
	for _, c := range e.Capabilities() {
		switch {
		case c.Metric == "freshness" && c.Via != "energy counter":
			t.Errorf("%+v", c)
		case c.Metric == "busy" && strings.HasSuffix(c.Device, "/1"):
			seen++
			if c.Reason != usage.ReasonNotSupported || !strings.Contains(c.Note, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") {
				t.Errorf("%+v", c)
			}
		}
	}
	if seen != 1 {
		t.Errorf("%d slices of that name", seen)
	}
}

func TestCapabilities(t *testing.T) {
	s := serve(t, fixture(t, "dcgm-datadog.prom")+"\n")
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	if c := capability(e, "busy"); c.Via != "" || c.Reason != usage.ReasonNotSupported {
		t.Fatalf("before a sample: %+v", c)
	}
	sample(t, e)
	if c := capability(e, "busy"); c.Via != "DCGM_FI_DEV_GPU_UTIL" || c.Reason != usage.ReasonNone {
		t.Fatalf("%+v", c)
	}
	if c := capability(e, "faults"); c.Via != "DCGM_FI_DEV_XID_ERRORS" || !strings.Contains(c.Note, "the same XID again is invisible") {
		t.Fatalf("%+v", c)
	}
	if c := capability(e, "freshness"); !strings.Contains(c.Via, "energy counter") {
		t.Fatalf("%+v", c)
	}
	if c := capability(e, "throttle"); c.Reason != usage.ReasonNotSupported {
		t.Fatalf("%+v", c)
	}
	s.page(strings.Replace(fixture(t, "dcgm-datadog.prom"), `dcgm-exporter"} 8.969000`, `dcgm-exporter"} N/A`, 1) + "\n")
	if got := sample(t, e)[0]; got.Power != collector.Unknown(usage.ReasonNotAvailable) {
		t.Fatalf("power that was there before: %+v", got.Power)
	}
}
