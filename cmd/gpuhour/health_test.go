package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/platform/obs"
)

func TestHealth(t *testing.T) {
	m := obs.NewMetrics("test")
	s := httptest.NewServer(m.Handler())
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	want := func(code int, text string, args ...string) {
		t.Helper()
		if got := call(t, "", append([]string{"health"}, args...)...); got.code != code || !strings.Contains(got.out+got.err, text) {
			t.Errorf("health %v:\n%s\nwant exit code %d and %q", args, got, code, text)
		}
	}
	want(1, "starting", "--http-listen", at)
	m.Ready(true)
	want(0, "ready", "--http-listen", at)
	_, port, _ := strings.Cut(at, ":")
	want(0, "ready", "--http-listen", "0.0.0.0:"+port) // everywhere is here too
	t.Setenv("GPUHOUR_HTTP_LISTEN", at)
	want(0, "ready")
	t.Setenv("GPUHOUR_HTTP_LISTEN", "")
	want(1, "give --http-listen")
	s.Config.Handler = http.NotFoundHandler()
	want(1, "404", "--http-listen", at)
	s.Close()
	want(1, "refused", "--http-listen", at)
}
