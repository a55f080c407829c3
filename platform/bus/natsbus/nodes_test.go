package natsbus_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// site is a provider's server under deploy/nats/nodes.conf, with two nodes.
type site struct {
	t      *testing.T
	dir    string
	server *server.Server
	ca     authority
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority(name string) authority {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, c, c, public, must(private, err)))
	return authority{must(x509.ParseCertificate(der)), private}
}

// write puts a certificate for 127.0.0.1 and its key into two files.
func (a authority) write(dir, name string, until time.Time) (cert, key string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, c, a.cert, public, must(a.key, err)))
	pkcs8 := must(x509.MarshalPKCS8PrivateKey(private))
	return writePEM(dir, name+".pem", "CERTIFICATE", der), writePEM(dir, name+"-key.pem", "PRIVATE KEY", pkcs8)
}

func writePEM(dir, name, kind string, der []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		panic(err)
	}
	return path
}

// newKey writes a user's seed and returns its path and public key.
func newKey(dir, name string) (path, public string) {
	k := must(nkeys.CreateUser())
	path = filepath.Join(dir, name+".nk")
	if err := os.WriteFile(path, must(k.Seed()), 0o600); err != nil {
		panic(err)
	}
	return path, must(k.PublicKey())
}

// startSite changes of the example nothing but paths, the port, and what edit does.
func startSite(t *testing.T, until time.Duration, edit func(string) string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), ca: newAuthority("site")}
	writePEM(s.dir, "ca.pem", "CERTIFICATE", s.ca.cert.Raw)
	s.ca.write(s.dir, "server", time.Now().Add(until))
	for _, name := range []string{"services", "operator"} {
		_, public := newKey(s.dir, name)
		t.Setenv(strings.ToUpper(name)+"_NKEY", public)
	}
	users := "users: [\n"
	for _, node := range []string{"node7", "rack 4"} {
		_, public := newKey(s.dir, node)
		users += natsbus.PublisherUsers(node, codec.UsageSubject(node), question(node), codec.Token(node), []string{public})
	}
	conf := must(os.ReadFile(filepath.FromSlash("../../../deploy/nats/nodes.conf")))
	text := strings.NewReplacer("/etc/nats/tls", s.dir, `"/data"`, `"`+s.dir+`/data"`, "0.0.0.0:4222", "127.0.0.1:-1", "127.0.0.1:8222", "127.0.0.1:-1").Replace(string(conf))
	for name, text := range map[string]string{"nodes.conf": edit(text), "node-users.conf": users + "]\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := server.ProcessConfigFile(filepath.Join(s.dir, "nodes.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	s.server = must(server.NewServer(o))
	s.server.Start()
	t.Cleanup(func() { s.server.Shutdown(); s.server.WaitForShutdown() })
	if !s.server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s
}

func (s *site) access(user string) natsbus.Access {
	return natsbus.Access{NKey: filepath.Join(s.dir, user+".nk"), CA: filepath.Join(s.dir, "ca.pem")}
}

func (s *site) connect(o natsbus.ConnectOptions) (*natsbus.Bus, error) {
	b, err := natsbus.Connect(s.t.Context(), strings.Replace(s.server.ClientURL(), "nats://", "tls://", 1), o)
	if err == nil {
		s.t.Cleanup(func() { _ = b.Close() })
	}
	return b, err
}

func (s *site) node(name string) *natsbus.Bus {
	s.t.Helper()
	b, err := s.connect(natsbus.ConnectOptions{Publisher: codec.Token(name), Access: s.access(name)})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// question is where a node asks an ingest.
func question(node string) string {
	return strings.Replace(codec.UsageSubject(node), "gh.usage.", "gh.ingest.", 1)
}

func unchanged(text string) string { return text }

// TestANodeMayPublishItsOwnAndNothingElse holds the example configuration against all that a node could try.
func TestANodeMayPublishItsOwnAndNothingElse(t *testing.T) {
	s := startSite(t, time.Hour, unchanged)
	services, err := s.connect(natsbus.ConnectOptions{Access: s.access("services")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node7", "rack 4"} {
		node, subject := s.node(name), codec.UsageSubject(name)
		if _, err := node.Last(t.Context(), subject); !errors.Is(err, bus.ErrNotFound) {
			t.Fatalf("%s: the last message of an empty subject: %v", name, err)
		}
		none := uint64(0)
		last, err := node.PublishBatch(t.Context(), []bus.Publication{
			{Subject: subject, Data: []byte("a"), ExpectLast: &none}, {Subject: subject, Data: []byte("b")}, {Subject: subject, Data: []byte("c")},
		})
		if err != nil {
			t.Fatal(name, err)
		}
		m, err := node.Last(t.Context(), subject)
		if err != nil || m.Seq != last || string(m.Data) != "c" || m.Subject != subject || m.Stream != bus.Usage || m.Header != nil || m.Time.IsZero() {
			t.Fatalf("%s: last is %+v, %v; want sequence %d", name, m, err, last)
		}
		if _, err := node.PublishBatch(t.Context(), []bus.Publication{{Subject: subject, Data: []byte("d"), ExpectLast: &none}}); !errors.Is(err, bus.ErrConflict) {
			t.Fatalf("%s: a wrong expectation gives %v", name, err)
		}
	}

	node, other := s.node("node7"), codec.UsageSubject("rack 4")
	denied := func(what, subject string, f func() error) {
		t.Helper()
		begin := time.Now()
		err := f()
		if !errors.Is(err, bus.ErrDenied) || errors.Is(err, bus.ErrAmbiguous) || !strings.Contains(err.Error(), "may not publish to "+subject) {
			t.Errorf("%s: %v", what, err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("%s took %v: it waited for an answer that never comes", what, d)
		}
	}
	publish := func(subject string) func() error {
		return func() error {
			_, err := node.Publish(t.Context(), bus.Publication{Subject: subject, Data: []byte("x")})
			return err
		}
	}
	denied("another node's subject", other, publish(other))
	denied("another node's batch", other, func() error {
		_, err := node.PublishBatch(t.Context(), []bus.Publication{{Subject: other, Data: []byte("x")}, {Subject: other, Data: []byte("y")}})
		return err
	})
	denied("a fact", "gh.fact.lease.L1", publish("gh.fact.lease.L1"))
	denied("a tick", bus.Tick, publish(bus.Tick))
	denied("another node's last batch", "$JS.API.DIRECT.GET.GPUHOUR_USAGE."+other, func() error {
		_, err := node.Last(t.Context(), other)
		return err
	})
	denied("the usage stream", "$JS.API.STREAM.MSG.GET.GPUHOUR_USAGE", func() error { _, err := node.Read(t.Context(), bus.Usage, 0, 10); return err })
	denied("the facts", "$JS.API.STREAM.MSG.GET.GPUHOUR_FACTS", func() error { _, err := node.LastSeq(t.Context(), bus.Facts); return err })

	if n, err := services.LastSeq(t.Context(), bus.Usage); n != 6 || err != nil {
		t.Errorf("the usage stream ends at %d, %v; want the 6 of the nodes", n, err)
	}
	if n, err := services.LastSeq(t.Context(), bus.Facts); n != 0 || err != nil {
		t.Errorf("the facts end at %d, %v; want none", n, err)
	}
}

// TestANodeAsksAnIngest through its own account, as itself alone, and has no answer put where it may not write.
func TestANodeAsksAnIngest(t *testing.T) {
	s := startSite(t, time.Hour, unchanged)
	services, err := s.connect(natsbus.ConnectOptions{Access: s.access("services")})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	if _, err := s.node("node7").Serve("gh.ingest.>", "ingest", nil); !errors.Is(err, bus.ErrDenied) || !strings.Contains(err.Error(), "gh.ingest.>") {
		t.Errorf("serving as who may not hear questions gives %v", err)
	}
	stop, err := services.Serve("gh.ingest.>", "ingest", func(subject string, data []byte, answer func([]byte) error) {
		asked <- subject
		_ = answer(append([]byte("got "), data...))
	})
	if err != nil {
		t.Fatal(err)
	}
	node := s.node("node7")
	answer, err := node.Ask(t.Context(), question("node7"), []byte("x"))
	if err != nil || string(answer) != "got x" || <-asked != question("node7") {
		t.Fatalf("answer %q, %v", answer, err)
	}
	if _, err := node.Ask(t.Context(), question("rack 4"), []byte("x")); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("asking as another node gives %v", err)
	}
	// The same question with the answer sent to a subject of the log, by one who is trusted to publish everywhere: it is not answered.
	raw, err := nats.Connect(strings.Replace(s.server.ClientURL(), "nats://", "tls://", 1), nats.RootCAs(filepath.Join(s.dir, "ca.pem")), must(nats.NkeyOptionFromSeed(filepath.Join(s.dir, "services.nk"))))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, reply := range []string{bus.Tick, "gh.fact.lease.L1", "gh.usage.14.node7"} {
		if err := raw.PublishRequest(question("node7"), reply, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(raw.Flush(), stop(t.Context())); err != nil { // stop returns once everything that came was taken
		t.Fatal(err)
	}
	if n, err := services.LastSeq(t.Context(), bus.Usage); n != 0 || err != nil || len(asked) != 0 {
		t.Errorf("the usage stream ends at %d, %v; %d more questions were taken", n, err, len(asked))
	}
}

// TestANodeThatSpeaksNATSItself: what our own client would never send.
func TestANodeThatSpeaksNATSItself(t *testing.T) {
	s := startSite(t, time.Hour, unchanged)
	services, err := s.connect(natsbus.ConnectOptions{Access: s.access("services")})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan string, 100)
	nkey := must(nats.NkeyOptionFromSeed(filepath.Join(s.dir, "node7.nk")))
	nc, err := nats.Connect(s.server.ClientURL(), nkey, nats.RootCAs(filepath.Join(s.dir, "ca.pem")), nats.CustomInboxPrefix(natsbus.InboxOf("node7")),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	wantRefused := func(subject string) {
		t.Helper()
		select {
		case text := <-refused:
			if !strings.Contains(text, subject) {
				t.Errorf("the server refused %s, want it to refuse %s", text, subject)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the server did not refuse %s", subject)
		}
	}
	for _, subject := range []string{
		"$JS.API.STREAM.DELETE.GPUHOUR_USAGE", "$JS.API.STREAM.PURGE.GPUHOUR_USAGE", "$JS.API.STREAM.MSG.DELETE.GPUHOUR_USAGE", "$JS.API.STREAM.UPDATE.GPUHOUR_USAGE",
		"$JS.API.STREAM.INFO.GPUHOUR_USAGE", "$JS.API.STREAM.CREATE.MINE", "$JS.API.CONSUMER.CREATE.GPUHOUR_USAGE", "$JS.API.DIRECT.GET.GPUHOUR_USAGE",
		"$SYS.REQ.SERVER.PING", "gh.usage.14.node7.x", "_INBOX.x",
	} {
		if err := nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		wantRefused(subject)
	}
	for _, subject := range []string{"gh.>", "gh.usage.14.node7", "_INBOX.>", ">", natsbus.InboxOf(codec.Token("rack 4")) + ".>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		wantRefused(subject)
	}

	own := codec.UsageSubject("node7")
	for _, reply := range []string{bus.Tick, "gh.fact.lease.L1", codec.UsageSubject("rack 4"), "$JS.API.STREAM.PURGE.GPUHOUR_USAGE"} {
		if err := nc.PublishMsg(&nats.Msg{Subject: own, Reply: reply, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	// The answer of the fifth comes after those of the four.
	if _, err := nc.Request(own, []byte("y"), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	messages, err := services.Read(t.Context(), bus.Usage, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if m.Subject != own {
			t.Errorf("the server's answer stands on %s: %s", m.Subject, m.Data)
		}
	}
	if n, err := services.LastSeq(t.Context(), bus.Facts); n != 0 || err != nil {
		t.Errorf("the facts end at %d, %v: an answer stands among them", n, err)
	}
}

// TestOperatorStatesFactsOnly: who may state facts writes neither usage nor time, and deletes nothing.
func TestOperatorStatesFactsOnly(t *testing.T) {
	s := startSite(t, time.Hour, unchanged)
	if _, err := s.connect(natsbus.ConnectOptions{Access: s.access("services")}); err != nil {
		t.Fatal(err)
	}
	operator, err := s.connect(natsbus.ConnectOptions{Access: s.access("operator")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Publish(t.Context(), bus.Publication{Subject: "gh.fact.lease.L1", Data: []byte("x")}); err != nil {
		t.Error(err)
	}
	if messages, err := operator.Read(t.Context(), bus.Facts, 0, 10); len(messages) != 1 || err != nil {
		t.Errorf("it reads %d facts, %v", len(messages), err)
	}
	for _, subject := range []string{bus.Tick, "gh.usage.14.node7"} {
		if _, err := operator.Publish(t.Context(), bus.Publication{Subject: subject, Data: []byte("x")}); !errors.Is(err, bus.ErrDenied) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// withClients asks each client for a certificate too, as the comment in the example says.
func withClients(text string) string {
	return strings.NewReplacer("# ca_file: ", "ca_file: ", "clients-ca.pem", "ca.pem", "# verify: true", "verify: true").Replace(text)
}

// TestAccessErrorsNameTheSetting: what is wrong with keys and certificates is told with the setting that mends it.
func TestAccessErrorsNameTheSetting(t *testing.T) {
	open := startSite(t, time.Hour, unchanged)
	strict := startSite(t, time.Hour, withClients)
	ended := startSite(t, -time.Hour, unchanged)
	dir := t.TempDir()
	other := newAuthority("other")
	otherCA := writePEM(dir, "other-ca.pem", "CERTIFICATE", other.cert.Raw)
	otherCert, otherKey := other.write(dir, "stranger", time.Now().Add(time.Hour))
	goodCert, goodKey := strict.ca.write(dir, "client", time.Now().Add(time.Hour))
	oldCert, oldKey := strict.ca.write(dir, "old", time.Now().Add(-time.Hour))
	stranger, _ := newKey(dir, "nobody")
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		site *site
		edit func(*natsbus.Access)
		want string // "" when it connects
	}{
		"all right":                  {open, func(*natsbus.Access) {}, ""},
		"all right with certificate": {strict, func(a *natsbus.Access) { a.Cert, a.Key = goodCert, goodKey }, ""},
		"wrong CA":                   {open, func(a *natsbus.Access) { a.CA = otherCA }, "nats.tls-ca: no CA in " + otherCA + " signed the server's certificate"},
		"no CA":                      {open, func(a *natsbus.Access) { a.CA = "" }, "nats.tls-ca: no CA of this machine signed"},
		"CA is text":                 {open, func(a *natsbus.Access) { a.CA = text }, "nats.tls-ca: " + text + " holds no certificate in PEM"},
		"CA is not there":            {open, func(a *natsbus.Access) { a.CA = text + "x" }, "nats.tls-ca: open "},
		"server's certificate ended": {ended, func(*natsbus.Access) {}, "the server's certificate has ended or does not hold yet"},
		"no client certificate":      {strict, func(*natsbus.Access) {}, "nats.tls-cert and nats.tls-key: the server asks for a client certificate"},
		"client key missing":         {strict, func(a *natsbus.Access) { a.Cert = goodCert }, "nats.tls-cert and nats.tls-key belong together"},
		"client key is not there":    {strict, func(a *natsbus.Access) { a.Cert, a.Key = goodCert, text+"x" }, "nats.tls-key: open "},
		"key of another certificate": {strict, func(a *natsbus.Access) { a.Cert, a.Key = goodCert, otherKey }, "nats.tls-cert and nats.tls-key: " + goodCert},
		"client certificate ended":   {strict, func(a *natsbus.Access) { a.Cert, a.Key = oldCert, oldKey }, "nats.tls-cert: the certificate in " + oldCert + " ended at "},
		"stranger's certificate":     {strict, func(a *natsbus.Access) { a.Cert, a.Key = otherCert, otherKey }, "nats.tls-cert: the server does not accept the certificate in " + otherCert},
		"unknown nkey":               {open, func(a *natsbus.Access) { a.NKey = stranger }, "nats.nkey: the server does not know the key in " + stranger},
		"no user":                    {open, func(a *natsbus.Access) { a.NKey = "" }, "nats.nkey or nats.creds: the server wants to know who connects"},
		"nkey is text":               {open, func(a *natsbus.Access) { a.NKey = text }, "nats.nkey: " + text + " holds no seed"},
		"nkey is not there":          {open, func(a *natsbus.Access) { a.NKey = text + "x" }, "nats.nkey: open "},
		"creds are not there":        {open, func(a *natsbus.Access) { a.NKey, a.Creds = "", text+"x" }, "nats.creds: open "},
		"creds are text":             {open, func(a *natsbus.Access) { a.NKey, a.Creds = "", text }, "nats.creds: "},
		"two users":                  {open, func(a *natsbus.Access) { a.Creds = text }, "nats.creds and nats.nkey are both set"},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.site.access("node7")
			c.edit(&a)
			b, err := natsbus.Connect(t.Context(), strings.Replace(c.site.server.ClientURL(), "nats://", "tls://", 1), natsbus.ConnectOptions{Publisher: "node7", Access: a})
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			case err == nil:
				t.Fatalf("it connects; want %s", c.want)
			case !strings.Contains(err.Error(), c.want):
				t.Errorf("%v\nwant it to say %s", err, c.want)
			}
		})
	}
}

// TestServicesUserOnANodesConnection: a connection that listens where it may not is told so, and does not wait.
func TestServicesUserOnANodesConnection(t *testing.T) {
	s := startSite(t, time.Hour, unchanged)
	wrong, err := s.connect(natsbus.ConnectOptions{Publisher: "another", Access: s.access("node7")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Publish(t.Context(), bus.Publication{Subject: codec.UsageSubject("node7"), Data: []byte("x")}); !errors.Is(err, bus.ErrAmbiguous) ||
		!strings.Contains(err.Error(), "a node's user is for the collector of that node alone") {
		t.Errorf("%v", err)
	}
}

// TestExampleOfNodeUsers: the list in deploy/nats is what `gpuhour node permissions` prints, and the server reads it beside the example.
func TestExampleOfNodeUsers(t *testing.T) {
	text := string(must(os.ReadFile(filepath.FromSlash("../../../deploy/nats/node-users.conf"))))
	_, rest, _ := strings.Cut(text, "nkey: ")
	key, _, _ := strings.Cut(rest, "\n")
	if !nkeys.IsValidPublicUserKey(key) {
		t.Fatalf("%q is no user's key", key)
	}
	want := strings.Replace(natsbus.PublisherUsers("example", codec.UsageSubject("example"), question("example"), codec.Token("example"), []string{key}),
		`{ # "example"`, `{ # "example"; put your nodes in its place`, 1)
	if !strings.Contains(text, "users: [\n"+want+"]\n") {
		t.Errorf("the example is\n%s\nwant it to hold\n%s", text, want)
	}
	two := natsbus.PublisherUsers("n", codec.UsageSubject("n"), question("n"), codec.Token("n"), []string{key, key})
	if strings.Count(two, "nkey: ") != 2 || strings.Count(two, "permissions:") != 2 {
		t.Errorf("two keys give\n%s", two)
	}
}
