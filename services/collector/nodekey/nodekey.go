package nodekey

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

const (
	// FileName is the key's file below the data directory, where no other is named.
	FileName = "node-key.pem"
	// PublicSuffix is added to the key's file for the public half.
	PublicSuffix = ".pub"

	privateType = "PRIVATE KEY" // PKCS#8
	publicType  = "PUBLIC KEY"  // PKIX
	maxFile     = 64 << 10
)

// Key is a node's private key. It is safe for concurrent use.
type Key struct{ private ed25519.PrivateKey }

// Generate draws a new key.
func Generate() (*Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("draw a node key: %w", err)
	}
	return &Key{private}, nil
}

// Public is what is enrolled.
func (k *Key) Public() fact.PublicKey {
	public, _ := k.private.Public().(ed25519.PublicKey) // it is one
	return fact.PublicKey(public)
}

// Sign implements collector.Signer.
func (k *Key) Sign(b *usage.Batch) error { return trust.Sign(k.private, b) }

// String does not show the private key, whoever prints it.
func (k *Key) String() string { return "node key " + k.Public().Fingerprint() }

// Write puts the key into a new file that only its owner may read, and the public half beside it. Nothing is overwritten: a key
// that is gone cannot sign any more.
func (k *Key) Write(path string) error {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return fmt.Errorf("write node key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write node key: %w", err)
	}
	if _, err := os.Lstat(path + PublicSuffix); err == nil { // or the new key would stand beside the public half of another one
		return isThere(path + PublicSuffix)
	}
	if err := create(path, 0o600, pem.EncodeToMemory(&pem.Block{Type: privateType, Bytes: der})); err != nil {
		return err
	}
	return create(path+PublicSuffix, 0o644, []byte(k.Public().String()+"\n"))
}

// PublicFile is the file beside the key's in which its public half stands, "" where there is none. That of another key there is an
// error: whoever enrols it has all batches of the node set aside.
func (k *Key) PublicFile(path string) (string, error) {
	path += PublicSuffix
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	there, err := Public(path)
	if err == nil && there != k.Public() {
		err = fmt.Errorf("it holds key %s, and the private key beside it is %s", there.Fingerprint(), k.Public().Fingerprint())
	}
	if err != nil {
		return "", fmt.Errorf("public half of a node key, %s: %w; delete that file before somebody enrols it", path, err)
	}
	return path, nil
}

func isThere(path string) error {
	return fmt.Errorf("write node key: %s is there already and stays; move it away, or name another file with --out", path)
}

// create writes a new file and syncs it with its directory.
func create(path string, mode fs.FileMode, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return isThere(path)
	}
	if err != nil {
		return fmt.Errorf("write node key: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write node key: %w; %s may be there in part, delete it and try again", err, path)
	}
	return nil
}

func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read reads a key that Write, or `openssl genpkey -algorithm ed25519`, wrote. A file that others may read is refused: who has read
// it can sign as this node.
func Read(path string) (*Key, error) {
	data, mode, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read node key: %w; make one with `gpuhour node keygen --out %s`", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read node key: %w", err)
	}
	if open := mode.Perm() & 0o077; open != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("read node key %s: its mode is %#o, so others than its owner may touch it; run `chmod 600 %s`, and make a new key if somebody may have read it",
			path, mode.Perm(), path)
	}
	block, _ := pem.Decode(data)
	switch {
	case len(data) == 0:
		return nil, fmt.Errorf("read node key %s: it is empty, as when its making was cut off; delete it, and make a key with `gpuhour node keygen`", path)
	case block == nil:
		return nil, fmt.Errorf("read node key %s: it holds no PEM; the key is what `gpuhour node keygen` wrote", path)
	case block.Type != privateType:
		return nil, fmt.Errorf("read node key %s: it holds a %s, not a %s (PKCS#8)", path, block.Type, privateType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read node key %s: %w", path, err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read node key %s: it is a %T; a node signs with Ed25519", path, parsed)
	}
	return &Key{private}, nil
}

func readFile(path string) (data []byte, mode fs.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat() // of what is read, not of what stands there a moment later
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is no file", path)
	case info.Size() > maxFile:
		return nil, 0, fmt.Errorf("%s has %d bytes; a key has a few hundred", path, info.Size())
	}
	data = make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		err = nil
	}
	return data[:n], info.Mode(), err
}

// Public reads a public key: the text that keygen prints, or a file that holds it or a PEM of it. A private key is refused, because
// it has no business outside its node.
func Public(keyOrFile string) (fact.PublicKey, error) {
	var key fact.PublicKey
	if strings.HasPrefix(keyOrFile, "ed25519:") {
		return key, key.UnmarshalText([]byte(keyOrFile))
	}
	data, _, err := readFile(keyOrFile)
	if errors.Is(err, fs.ErrNotExist) {
		return key, fmt.Errorf("public key %q is neither a key (ed25519:...) nor a file that is there", keyOrFile)
	}
	if err != nil {
		return key, fmt.Errorf("read public key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		if err := key.UnmarshalText([]byte(strings.TrimSpace(string(data)))); err != nil {
			return key, fmt.Errorf("file %s: it holds no public key; name the file that `gpuhour node keygen` wrote with %s at its end", keyOrFile, PublicSuffix)
		}
		return key, nil
	}
	if block.Type == privateType {
		return key, fmt.Errorf("file %s: it holds a private key, which stays on its node; give the public one that `gpuhour node keygen` printed", keyOrFile)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := parsed.(ed25519.PublicKey)
	if err != nil || block.Type != publicType || !ok {
		return key, fmt.Errorf("file %s: it holds a %s that is no Ed25519 public key", keyOrFile, block.Type)
	}
	return fact.PublicKey(public), nil
}
