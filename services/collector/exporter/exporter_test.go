package exporter_test

import (
	"errors"
	"fmt"
	"io"
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
	if _, err := x.Scan(); err != nil {
		t.Fatal(err)
	}
	return x, x.Endpoints()[0]
}

func sample(t *testing.T, e *exporter.Endpoint) []collector.Reading {
	t.Helper()
	r, err := e.Sample(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// failing samples an endpoint without a page: it says why, beside readings of which nothing is known.
func failing(t *testing.T, e *exporter.Endpoint, why usage.Reason) []collector.Reading {
	t.Helper()
	r, err := e.Sample(nil)
	var none *collector.NoAnswer
	if !errors.As(err, &none) || none.Reason != why || err.Error() != e.Stats().LastError {
		t.Fatalf("error %v; want %q for reason %d", err, e.Stats().LastError, why)
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
		"hangs":        {hang, usage.ReasonTimeout, "deadline"},
		"hangs inside": {func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); hang(w, r) }, usage.ReasonTimeout, "deadline"},
		"500":          {status(500), usage.ReasonError, "500"},
		"401":          {status(401), usage.ReasonPermission, "name and password"},
		"403":          {status(403), usage.ReasonPermission, "403"},
		"sends on":     {http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP, usage.ReasonError, "another host"},
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
			got := failing(t, e, c.why)
			if len(got) != 2 || got[0].Device != "GPU-a" || got[1].Device != "GPU-b" {
				t.Fatalf("%+v", got)
			}
			allUnknown(t, got[0], c.why)
			allUnknown(t, got[1], c.why)
			if st := e.Stats(); st.Failed != 1 || !strings.Contains(st.LastError, c.says) {
				t.Fatalf("%+v; want %q", st, c.says)
			}
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
		for _, r := range failing(t, e, usage.ReasonError) {
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
		{}, {URLs: []string{"ftp://x"}}, {URLs: []string{"a:1", "http://a:1/metrics"}}, {URLs: []string{"a"}, StaleAfter: 1}, {URLs: []string{":"}},
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
	got := sample(t, e)
	allUnknown(t, got[1], usage.ReasonError)
	if got[0].Busy != collector.Known(2) || e.Stats().BadLines != 1 {
		t.Fatalf("%+v, %+v", got, e.Stats())
	}
}

// TestOneConnectionWithAPassword: pages come over one connection, a redirect on the same host is followed, and no error or name
// shows the password.
func TestOneConnectionWithAPassword(t *testing.T) {
	s := serve(t, "")
	var mu sync.Mutex
	connections := map[string]bool{}
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
			_, _ = fmt.Fprintf(w, two, 1, len(connections), 1)
		}
	})
	address := func(password string) string { return strings.Replace(s.URL, "//", "//meter:"+password+"@", 1) }
	_, e := open(t, exporter.Options{URLs: []string{address("secret")}})
	for range 5 {
		if got := sample(t, e); got[0].Energy != collector.Known(1) {
			t.Fatalf("%+v", got)
		}
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

func TestADeviceOfTwoEndpointsIsReadOnce(t *testing.T) {
	one, other := serve(t, fmt.Sprintf(two, 1, 1, 1)), serve(t, fixture(t, "ascend-chips.prom")+"\n")
	third := serve(t, fmt.Sprintf(two, 7, 7, 7)+"DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-z\"} 7\n")
	x, _ := open(t, exporter.Options{URLs: []string{one.URL, other.URL, third.URL}})
	var got []string
	for _, e := range x.Endpoints() {
		got = append(got, e.Devices()...)
		sample(t, e)
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
	if st := x.Endpoints()[2].Stats(); !strings.Contains(st.LastBad, "named first") {
		t.Fatalf("%+v", st)
	}
}

// TestStaleByEnergy: the tenth page that shows the same is stale, an idle GPU whose energy moves never is, and it is over when
// something moves.
func TestStaleByEnergy(t *testing.T) {
	s := serve(t, "")
	s.page(fmt.Sprintf(two, 50, 1000, 0))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	for n := 1; n <= 13; n++ {
		s.page(fmt.Sprintf(two, 50, 1000, n))
		got := sample(t, e)
		if n >= 10 {
			allUnknown(t, collector.Reading{Busy: got[0].Busy, Memory: got[0].Busy, Power: got[0].Energy, Energy: got[0].Energy, Throttle: got[0].Busy}, usage.ReasonStale)
			if got[0].Memory != collector.Unknown(usage.ReasonNotSupported) {
				t.Fatalf("what was unknown before keeps its reason: %+v", got[0])
			}
		} else if got[0].Busy != collector.Known(50) {
			t.Fatalf("page %d: %+v", n, got[0])
		}
		if got[1].Busy != collector.Known(0) || got[1].Energy != collector.Known(int64(n)) {
			t.Fatalf("page %d: the idle one is %+v", n, got[1])
		}
	}
	s.page(fmt.Sprintf(two, 50, 1001, 14))
	if got := sample(t, e); got[0].Energy != collector.Known(1001) {
		t.Fatalf("after it moved: %+v", got[0])
	}
}

// TestStaleSlices: slices are judged by their GPU's counter, which stands with them in the page alone.
func TestStaleSlices(t *testing.T) {
	s := serve(t, fixture(t, "dcgm-mig.prom"))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}, StaleAfter: 3})
	for n := range 3 {
		got := sample(t, e)
		if fresh := n < 2; got[1].Device != "GPU-aaaaaaaa-0000-0000-0000-000000000001/1" || got[1].Busy.Read() != fresh {
			t.Fatalf("page %d: %+v", n, got[1])
		}
	}
}

// TestStaleByTime: Ascend has no energy; the times of its lines are the witness, standing or old.
func TestStaleByTime(t *testing.T) {
	at := int64(1_723_621_883_000)
	now := time.UnixMilli(at)
	page := func() string { return fmt.Sprintf("npu_chip_info_utilization{id=\"0\",vdie_id=\"A\"} 5 %d\n", at) }
	s := serve(t, page())
	_, e := open(t, exporter.Options{URLs: []string{s.URL}, StaleAfter: 3, MaxAge: 20 * time.Second, Now: func() time.Time { return now }})
	want := func(known bool) {
		t.Helper()
		s.page(page())
		got := sample(t, e)[0]
		if got.Busy.Read() != known || !known && got.Busy.Reason != usage.ReasonStale {
			t.Fatalf("%+v", got)
		}
		if got.Energy != collector.Unknown(usage.ReasonNotSupported) {
			t.Fatalf("energy %+v", got.Energy)
		}
	}
	want(true)
	want(true)
	want(false) // stands still
	at += 1000
	want(true)
	now = now.Add(22 * time.Second)
	at += 500
	want(false) // moves, and is 20.5 s old
	at += 1000
	want(true)
}

func TestWithoutAWitnessNothingIsStale(t *testing.T) {
	s := serve(t, fixture(t, "amd-mini.prom"))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}, StaleAfter: 2})
	for range 4 {
		if got := sample(t, e)[0]; got.Power != collector.Known(41000) {
			t.Fatalf("%+v", got)
		}
	}
	if c := capability(e, "freshness"); c.Reason != usage.ReasonNotSupported || !strings.Contains(c.Note, "not noticed") {
		t.Fatalf("%+v", c)
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
