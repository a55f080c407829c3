package nodekey_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func written(t *testing.T) (*nodekey.Key, string) {
	t.Helper()
	key, err := nodekey.Generate()
	check(t, err)
	path := filepath.Join(t.TempDir(), "deep", "er", nodekey.FileName)
	check(t, key.Write(path))
	return key, path
}

// TestKeyComesBack: what was written signs as before, and its public half is in a file of its own.
func TestKeyComesBack(t *testing.T) {
	key, path := written(t)
	read, err := nodekey.Read(path)
	check(t, err)
	if read.Public() != key.Public() {
		t.Errorf("read %s, wrote %s", read, key)
	}
	public, err := nodekey.Public(path + nodekey.PublicSuffix)
	if err != nil || public != key.Public() {
		t.Errorf("the public file holds %s, %v", public, err)
	}
	b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1}
	check(t, read.Sign(&b))
	enrolled := trust.Of([]fact.Fact{{Seq: 1, Key: "k", Body: &fact.NodeEnrolled{Node: "n", PublicKey: key.Public(), By: "ops"}}})
	if q := enrolled.Judge(&b, 1, 1000); q != nil {
		t.Error(q)
	}
	if err := key.Write(path); err == nil || !strings.Contains(err.Error(), "is there already and stays") {
		t.Errorf("it is overwritten: %v", err)
	}
	data, err := os.ReadFile(path)
	check(t, err)
	if text := fmt.Sprintf("%v %+v %s", key, key, key); strings.Contains(text, "PRIVATE") || !strings.Contains(text, key.Public().Fingerprint()) || len(data) == 0 {
		t.Errorf("a printed key shows %s", text)
	}
}

// TestPublicHalfOfAnotherKey: what would be enrolled by mistake is told, and no private key is written beside it.
func TestPublicHalfOfAnotherKey(t *testing.T) {
	key, path := written(t)
	if file, err := key.PublicFile(path); err != nil || file != path+nodekey.PublicSuffix {
		t.Errorf("the public half is in %q, %v", file, err)
	}
	check(t, os.Remove(path))
	other, err := nodekey.Generate()
	check(t, err)
	if err := other.Write(path); err == nil || !strings.Contains(err.Error(), nodekey.PublicSuffix+" is there already and stays") {
		t.Errorf("written beside the public half of another key: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("and a private key is there: %v", err)
	}
	if _, err := other.PublicFile(path); err == nil || !strings.Contains(err.Error(), "it holds key "+key.Public().Fingerprint()) {
		t.Errorf("the public half of another key: %v", err)
	}
	check(t, os.Remove(path+nodekey.PublicSuffix))
	if file, err := other.PublicFile(path); err != nil || file != "" {
		t.Errorf("without one it is in %q, %v", file, err)
	}
}

func TestReadRefuses(t *testing.T) {
	_, path := written(t)
	good, err := os.ReadFile(path)
	check(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(other)
	check(t, err)
	public, err := x509.MarshalPKIXPublicKey(&other.PublicKey)
	check(t, err)
	for name, c := range map[string]struct {
		data []byte
		mode os.FileMode
		want string
	}{
		"open to the group":  {good, 0o640, "its mode is 0640, so others than its owner may touch it; run `chmod 600 "},
		"open to the world":  {good, 0o604, "its mode is 0604"},
		"text":               {[]byte("hello"), 0o600, "it holds no PEM"},
		"empty":              {nil, 0o600, "it is empty, as when its making was cut off; delete it"},
		"another kind":       {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600, "it is a *ecdsa.PrivateKey; a node signs with Ed25519"},
		"a public key":       {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600, "it holds a PUBLIC KEY, not a PRIVATE KEY (PKCS#8)"},
		"cut off":            {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}), 0o600, "asn1"},
		"far too large":      {make([]byte, 1<<20), 0o600, "has 1048576 bytes; a key has a few hundred"},
		"readable for owner": {good, 0o400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			check(t, os.WriteFile(file, c.data, c.mode))
			check(t, os.Chmod(file, c.mode))
			_, err := nodekey.Read(file)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && runtime.GOOS == "windows" && strings.Contains(c.want, "mode"):
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
	if _, err := nodekey.Read(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "make one with `gpuhour node keygen") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := nodekey.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestPublicRefuses(t *testing.T) {
	_, path := written(t)
	text := filepath.Join(t.TempDir(), "text")
	check(t, os.WriteFile(text, []byte("hello"), 0o600))
	for name, c := range map[string]struct{ given, want string }{
		"too short":   {"ed25519:abc", "ed25519: and 43 characters"},
		"no file":     {"nothing.pub", "neither a key (ed25519:...) nor a file that is there"},
		"private key": {path, "it holds a private key, which stays on its node"},
		"text":        {text, "it holds no public key"},
	} {
		if _, err := nodekey.Public(c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}
