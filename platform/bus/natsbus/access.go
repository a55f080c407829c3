package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Access is how a process proves itself to a server and knows the server. All are paths of files and none is needed. Errors name
// the setting (docs/configuration.md). Files are read again at each connect, so that what expires can be replaced under a running process.
type Access struct {
	Creds string // of a JWT user
	NKey  string // the seed of an nkey user
	CA    string // certificates that sign the server's, in PEM; the machine's own when empty
	Cert  string // this process's certificate, in PEM, and
	Key   string // its private key
}

// options checks the files that are named, so that what is wrong with one is not told as a refusal of the server.
func (a Access) options() ([]nats.Option, error) {
	var all []nats.Option
	switch {
	case a.Creds != "" && a.NKey != "":
		return nil, errors.New("nats.creds and nats.nkey are both set; give the one that the server's administrator gave you")
	case (a.Cert == "") != (a.Key == ""):
		return nil, errors.New("nats.tls-cert and nats.tls-key belong together; give both or none")
	case a.Creds != "":
		data, err := os.ReadFile(a.Creds)
		if err != nil {
			return nil, fmt.Errorf("nats.creds: %w", err)
		}
		if _, err := nkeys.ParseDecoratedUserNKey(data); err != nil {
			return nil, fmt.Errorf("nats.creds: %s holds no credentials of a user: %w", a.Creds, err)
		}
		all = append(all, nats.UserCredentials(a.Creds))
	case a.NKey != "":
		if _, err := os.ReadFile(a.NKey); err != nil {
			return nil, fmt.Errorf("nats.nkey: %w", err)
		}
		o, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, fmt.Errorf("nats.nkey: %s holds no seed of an nkey user, which begins with SU: %w", a.NKey, err)
		}
		all = append(all, o)
	}
	if a.CA == "" && a.Cert == "" {
		return all, nil
	}
	var cert nats.TLSCertHandler
	var roots nats.RootCAsHandler
	if a.Cert != "" {
		cert = a.certificate
	}
	if a.CA != "" {
		roots = a.roots
	}
	return append(all, nats.ClientTLSConfig(cert, roots)), nil // it reads all of them once
}

func (a Access) roots() (*x509.CertPool, error) {
	data, err := os.ReadFile(a.CA)
	if err != nil {
		return nil, fmt.Errorf("nats.tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("nats.tls-ca: %s holds no certificate in PEM", a.CA)
	}
	return pool, nil
}

func (a Access) certificate() (tls.Certificate, error) {
	for _, f := range []struct{ setting, path string }{{"nats.tls-cert", a.Cert}, {"nats.tls-key", a.Key}} {
		if _, err := os.ReadFile(f.path); err != nil {
			return tls.Certificate{}, fmt.Errorf("%s: %w", f.setting, err)
		}
	}
	pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return pair, fmt.Errorf("nats.tls-cert and nats.tls-key: %s and %s: %w", a.Cert, a.Key, err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return pair, fmt.Errorf("nats.tls-cert: the certificate in %s ended at %s; put a new one there", a.Cert, end.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

// refused says which setting a failed connect is about.
func (a Access) refused(err error) error {
	var (
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
		text     = err.Error()
		hint     string
	)
	switch {
	case errors.As(err, &unknown) && a.CA == "":
		hint = "nats.tls-ca: no CA of this machine signed the server's certificate; name the file of the one that did"
	case errors.As(err, &unknown):
		hint = "nats.tls-ca: no CA in " + a.CA + " signed the server's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		hint = "the server's certificate has ended or does not hold yet: renew it there, and compare this machine's clock"
	case errors.As(err, &hostname):
		hint = "nats.url: the server's certificate is for other names than this address"
	case errors.Is(err, nats.ErrSecureConnWanted):
		hint = "nats.tls-ca and nats.tls-cert: they ask for TLS, and the server at nats.url has none"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrNkeysNotSupported):
		hint = a.user()
	case a.Cert == "" && refusedClient(text):
		hint = "nats.tls-cert and nats.tls-key: the server asks for a client certificate"
	case refusedClient(text):
		hint = "nats.tls-cert: the server does not accept the certificate in " + a.Cert
	default:
		return err
	}
	return fmt.Errorf("%s: %w", hint, err)
}

// refusedClient recognises a server that ends a handshake because of the client's certificate. It tells so by an alert, which may come
// too late to be read.
func refusedClient(text string) bool {
	return strings.Contains(text, "remote error: tls") || strings.Contains(text, "closed by remote after TLS handshake")
}

// user names the setting that says who connects.
func (a Access) user() string {
	switch {
	case a.Creds != "":
		return "nats.creds: the server does not accept the user in " + a.Creds
	case a.NKey != "":
		return "nats.nkey: the server does not know the key in " + a.NKey
	default:
		return "nats.nkey or nats.creds: the server wants to know who connects, and knows no user of nats.url"
	}
}
