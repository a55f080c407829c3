package obs_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gpuhour/gpuhour/platform/obs"
)

// filled is metrics with a value for every label, so that each family is there.
func filled() *obs.Engine {
	m := obs.NewEngine("0.0.1")
	m.Steps.WithLabelValues("rater", "worked").Add(3)
	m.Rated.WithLabelValues("blocks").Add(2)
	m.Refusals.Inc()
	m.LastTick.WithLabelValues("rater").Set(1767225600)
	m.Blocked.Set(1)
	i := m.Ingest()
	i.Requests.WithLabelValues("stored").Inc()
	i.Commits.WithLabelValues("conflict").Inc()
	i.Size.Observe(1000)
	i.Waiting.Add(5)
	return m
}

func get(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code, w.Body.String()
}

func TestMetricsKeepToTheConventions(t *testing.T) {
	code, body := get(t, filled().Handler(), http.MethodGet, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	for _, want := range []string{
		`gpuhour_steps_total{result="worked",service="rater"} 3`, `gpuhour_rated_total{kind="blocks"} 2`, "gpuhour_refusals_total 1",
		`gpuhour_last_tick_timestamp_seconds{service="rater"} 1.7672256e+09`, "gpuhour_blocked_periods 1",
		`gpuhour_ingest_requests_total{result="stored"} 1`, `gpuhour_ingest_commits_total{result="conflict"} 1`, "gpuhour_ingest_waiting_bytes 5",
		`gpuhour_ingest_commit_batches_bucket{le="999"} 0`, `gpuhour_ingest_commit_batches_bucket{le="1000"} 1`, `gpuhour_build_info{version="0.0.1"} 1`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestLabelsAreBounded: a customer, lease or device in a label would make as many series as there are of them.
func TestLabelsAreBounded(t *testing.T) {
	bounded := map[string]bool{"service": true, "result": true, "kind": true, "version": true, "le": true}
	_, body := get(t, filled().Handler(), http.MethodGet, "/metrics")
	for line := range strings.Lines(body) {
		_, labels, ok := strings.Cut(line, "{")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		labels, _, _ = strings.Cut(labels, "}")
		for label := range strings.SplitSeq(labels, ",") {
			if name, _, _ := strings.Cut(label, "="); !bounded[name] {
				t.Errorf("label %s is not known to be bounded: %s", name, line)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	m := filled()
	type answer struct {
		Code int
		Body string
	}
	ask := func(method, path string) answer {
		code, body := get(t, m.Handler(), method, path)
		return answer{code, body}
	}
	starting, ready := answer{http.StatusServiceUnavailable, "starting\n"}, answer{http.StatusOK, "ready\n"}
	var got []answer
	for _, r := range []bool{false, true, false} {
		m.Ready(r)
		got = append(got, ask(http.MethodGet, "/readyz"))
	}
	if diff := cmp.Diff([]answer{starting, ready, starting}, got); diff != "" {
		t.Errorf("/readyz (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(answer{http.StatusOK, "ok\n"}, ask(http.MethodGet, "/healthz")); diff != "" {
		t.Errorf("/healthz (-want +got):\n%s", diff)
	}
	if got := ask(http.MethodPost, "/healthz"); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /healthz: %+v", got)
	}
	if got := ask(http.MethodGet, "/"); got.Code != http.StatusNotFound {
		t.Errorf("GET /: %+v", got)
	}
}

// free is an address on which nothing listens.
func free(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, l.Addr().String()
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, address := free(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- filled().Serve(ctx, address) }()
	for served := false; !served; {
		select {
		case err := <-ended:
			t.Fatalf("Serve ended before its context: %v", err)
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // not listening yet
		}
		body, err := io.ReadAll(response.Body)
		served = err == nil && string(body) == "ok\n"
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestAddressInUse(t *testing.T) {
	l, address := free(t)
	defer l.Close()
	err := filled().Serve(t.Context(), address)
	if err == nil || !strings.Contains(err.Error(), "listen for metrics on "+address) || !strings.Contains(err.Error(), "--http-listen") {
		t.Errorf("Serve = %v; want the address and the flag that changes it", err)
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log, err := obs.Logger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("hidden")
	log.Warn("shown", "n", 1)
	if got := out.String(); strings.Contains(got, "hidden") || !strings.Contains(got, `"msg":"shown","n":1}`) {
		t.Errorf("log %s", got)
	}
	out.Reset()
	if log, err = obs.Logger(&out, "debug", "text"); err != nil {
		t.Fatal(err)
	}
	log.Log(t.Context(), slog.LevelDebug, "shown")
	if !strings.Contains(out.String(), "level=DEBUG msg=shown") {
		t.Errorf("log %s", out.String())
	}
	if _, err := obs.Logger(&out, "loud", "text"); err == nil {
		t.Error("a level that is none was taken")
	}
}
