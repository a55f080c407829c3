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
		return nil, fmt.Errorf("endpoint %q is no address; write it like http://127.0.0.1:9400/metrics", text[strings.LastIndexByte(text, '@')+1:]) // no password
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	return u, nil
}

const maxRedirects = 3

func newClient(u *url.URL, o Options) *client {
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{ // an exporter stands on this node: no proxy of the environment lies between
			DialContext:         (&net.Dialer{Timeout: o.Timeout}).DialContext, // goes on when its request is over: so it has to end,
			TLSHandshakeTimeout: o.Timeout,                                     // or each second leaves a connection more
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     time.Minute,
		}
	}
	stay := func(next *http.Request, before []*http.Request) error {
		switch {
		case next.URL.Host != u.Host || next.URL.Scheme != u.Scheme:
			return fmt.Errorf("the endpoint sends on to %s://%s; give the address of the exporter itself", next.URL.Scheme, next.URL.Host)
		case len(before) > maxRedirects:
			return fmt.Errorf("the endpoint sends on more than %d times; give the address of the page itself", maxRedirects)
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
		return "", reasonOf(err), c.explain("get", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, c.maxBody+1))
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return "", usage.ReasonPermission, fmt.Errorf("get %s: %s; put name and password into the address, or open the endpoint to this node", c.url.Redacted(), res.Status)
	case res.StatusCode != http.StatusOK:
		return "", usage.ReasonError, fmt.Errorf("get %s: %s; %s", c.url.Redacted(), res.Status, pageRemedy)
	case err != nil:
		return "", reasonOf(err), c.explain("read", err)
	case int64(len(body)) > c.maxBody:
		return "", usage.ReasonError, fmt.Errorf("read %s: the page is longer than %d bytes; let the exporter show this node's devices only", c.url.Redacted(), c.maxBody)
	}
	return string(body), usage.ReasonNone, nil
}

// explain names the address, without a password, and what a person may do.
func (c *client) explain(what string, err error) error {
	var at *url.Error // of the last redirect
	if errors.As(err, &at) {
		err = at.Err
	}
	err = fmt.Errorf("%s %s: %w", what, c.url.Redacted(), err)
	var dial *net.OpError
	switch {
	case reasonOf(err) == usage.ReasonTimeout:
		return fmt.Errorf("%w; the page was not there within %s, and a second has no more: let the exporter collect less, or look whether it hangs", err, c.timeout)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w; start the exporter, or give the address where it listens", err)
	default:
		return err
	}
}

func reasonOf(err error) usage.Reason {
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return usage.ReasonTimeout
	}
	return usage.ReasonError
}
