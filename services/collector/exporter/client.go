package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
)

// client fetches the page of one endpoint, over one connection that it keeps.
type client struct {
	http    *http.Client
	url     *url.URL
	timeout time.Duration
	maxBody int64
}

// endpointURL reads an address as a person writes it: host:port means http and /metrics.
func endpointURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q is no address; write it like http://127.0.0.1:9400/metrics", text)
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	return u, nil
}

func newClient(u *url.URL, o Options) *client {
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{ // an exporter stands on this node: no proxy of the environment lies between
			DialContext:         (&net.Dialer{}).DialContext,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     time.Minute,
		}
	}
	stay := func(next *http.Request, _ []*http.Request) error {
		if next.URL.Host != u.Host || next.URL.Scheme != u.Scheme {
			return fmt.Errorf("the endpoint sends on to %s, another host; give the address of the exporter itself", next.URL.Host)
		}
		return nil
	}
	return &client{&http.Client{Transport: transport, CheckRedirect: stay}, u, o.Timeout, o.MaxBody}
}

// get fetches the page. Without one it says why, as a reason and in words.
func (c *client) get() (string, usage.Reason, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url.String(), http.NoBody)
	if err != nil {
		return "", usage.ReasonError, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := c.http.Do(req)
	if err != nil {
		return "", reasonOf(err), err // names method and address, without a password
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, c.maxBody+1))
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return "", usage.ReasonPermission, fmt.Errorf("get %s: %s; put name and password into the address, or open the endpoint to this node", c.url.Redacted(), res.Status)
	case res.StatusCode != http.StatusOK:
		return "", usage.ReasonError, fmt.Errorf("get %s: %s", c.url.Redacted(), res.Status)
	case err != nil:
		return "", reasonOf(err), fmt.Errorf("read %s: %w", c.url.Redacted(), err)
	case int64(len(body)) > c.maxBody:
		return "", usage.ReasonError, fmt.Errorf("read %s: the page is longer than %d bytes; let the exporter show this node's devices only", c.url.Redacted(), c.maxBody)
	}
	return string(body), usage.ReasonNone, nil
}

func reasonOf(err error) usage.Reason {
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return usage.ReasonTimeout
	}
	return usage.ReasonError
}
