package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
	"github.com/gpuhour/gpuhour/services/nodes"
)

func nodeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "node", Short: "Enrol nodes' keys, and show what a node said",
		Long: `A node signs what it measures. keygen makes its key, on the node; enrol states the public half in
the log, and from then on nothing counts of that node that is not signed with one of its keys. To
change a key: enrol the new one, let the node sign with it, revoke the old one.`,
	}
	holdCommands(c)
	c.AddCommand(keygenCommand(), nkeyCommand(), enrolCommand(), revokeCommand(), listNodesCommand(), showNodeCommand(), discloseCommand(), permissionsCommand())
	return c
}

func keygenCommand() *cobra.Command {
	var out string
	var keep bool
	c := &cobra.Command{
		Use: "keygen", Short: "Make this node's key, with which it signs; run it on the node", Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				cfg, err := config.Load(c.Flags())
				if err != nil {
					return err
				}
				out = cfg.Path(nodekey.FileName)
			}
			key, err := makeKey(out, keep)
			if err != nil {
				return err
			}
			beside, err := key.PublicFile(out)
			if err != nil { // the collector needs no such file, and its start waits for this command
				fmt.Fprintln(c.ErrOrStderr(), "WARNING", err)
			} else if beside != "" {
				beside = " is in " + beside
			}
			fmt.Fprintf(c.OutOrStdout(), `the private key is in %s and stays on this node
the public key%s:
  %s
  fingerprint %s
where the log is administered, run
  gpuhour node enrol NODE --key %s --by WHO
`, out, beside, key.Public(), key.Public().Fingerprint(), key.Public())
			return nil
		},
	}
	settings(c)
	c.Flags().StringVar(&out, "out", "", "file of the key; "+nodekey.FileName+" in the data directory when not given")
	c.Flags().BoolVar(&keep, "keep", false, "where there is a key already, show its public half and make none")
	return c
}

// makeKey writes a new key, or reads the one that is there and to be kept.
func makeKey(path string, keep bool) (*nodekey.Key, error) {
	if keep {
		if _, err := os.Stat(path); err == nil {
			return nodekey.Read(path)
		}
	}
	key, err := nodekey.Generate()
	if err != nil {
		return nil, err
	}
	return key, key.Write(path)
}

func nkeyCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "nkey", Short: "Make a key with which this node, or a service, connects to NATS (nats.nkey)", Args: takes(0, 0),
		Long: `nkey makes the key with which a connection proves who it is. It is another one than the key of
keygen, on purpose: the server chooses what a connection signs, and must not get a batch signed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			user, err := nkeys.CreateUser()
			if err != nil {
				return fmt.Errorf("draw an nkey: %w", err)
			}
			seed, seedErr := user.Seed()
			public, err := user.PublicKey()
			if err := errors.Join(seedErr, err); err != nil {
				return fmt.Errorf("draw an nkey: %w", err)
			}
			if err := newFile(out, append(seed, '\n')); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "the seed is in %s; start with --nats-nkey %s\nthe public key, for `gpuhour node permissions NODE --nkey ...` or the server's settings:\n  %s\n", out, out, public)
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", "nats.nk", "file of the seed")
	return c
}

// newFile writes a file that only its owner may read, and overwrites none.
func newFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already and stays; name another file with --out", filepath.ToSlash(path))
	}
	if err != nil {
		return fmt.Errorf("write a new file: %w", err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// nodeLog is the part of an engine that these commands use.
type nodeLog interface {
	Bus() bus.Bus
	State(ctx context.Context, facts ...fact.Fact) error
}

// statement is what enrol and revoke are told.
type statement struct{ node, key, by, note string }

func (s *statement) flags(c *cobra.Command) {
	settings(c)
	c.Flags().StringVar(&s.key, "key", "", "public key as keygen printed it (ed25519:...), or a file that holds it")
	c.Flags().StringVar(&s.by, "by", os.Getenv("USER"), "who says so; it stays in the log")
	c.Flags().StringVar(&s.note, "note", "", "a remark; it stays in the log")
}

func (s *statement) public() (fact.PublicKey, error) {
	switch {
	case s.key == "":
		return fact.PublicKey{}, errors.New("--key: give the public key that `gpuhour node keygen` printed on the node")
	case s.by == "":
		return fact.PublicKey{}, errors.New("--by: say who states it; it stays in the log")
	}
	return nodekey.Public(s.key)
}

func enrolCommand() *cobra.Command {
	var s statement
	c := &cobra.Command{
		Use: "enrol NODE", Short: "State that a node signs with a key; from then on it must", Args: takes(1, 1),
		Example: "  gpuhour node enrol gpu-07 --key ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo --by ops-2",
		RunE: func(c *cobra.Command, args []string) error {
			s.node = args[0]
			key, err := s.public()
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error { return enrol(c.Context(), c.OutOrStdout(), e, s, key) })
		},
	}
	s.flags(c)
	return c
}

// enrol states a key, once. What would surprise somebody is told beside.
func enrol(ctx context.Context, out io.Writer, e nodeLog, s statement, key fact.PublicKey) error {
	r, err := nodes.Read(ctx, e.Bus())
	if err != nil {
		return err
	}
	if owner, ok := r.Owner(key, s.node); ok {
		return fmt.Errorf("key %s is stated of node %s: each node has a key of its own, or one could write as the other; make one on this node with `gpuhour node keygen`",
			key.Fingerprint(), owner)
	}
	known, ok := r.Key(s.node, key)
	switch {
	case ok && known.Revoked > 0:
		return fmt.Errorf("key %s of node %s was revoked by fact %d, and a revoked key never comes back; make a new one with `gpuhour node keygen`",
			key.Fingerprint(), s.node, known.Revoked)
	case ok:
		fmt.Fprintf(out, "node %s has key %s since fact %d; nothing changes\n", s.node, key.Fingerprint(), known.Enrolled)
		return nil
	}
	last, there, err := nodes.Last(ctx, e.Bus(), s.node)
	if err != nil {
		return err
	}
	f := fact.Fact{Key: "node.enrolled/" + s.node + "/" + key.String(), Body: &fact.NodeEnrolled{Node: s.node, PublicKey: key, By: s.by, Note: s.note}}
	if err := f.Body.Validate(); err != nil {
		return err
	}
	if err := e.State(ctx, f); err != nil {
		return err
	}
	fmt.Fprintf(out, "node %s may sign with key %s\n", s.node, key.Fingerprint())
	if active := len(r.Active(s.node)); active > 0 {
		fmt.Fprintf(out, "it has %s besides; when it signs with the new one, revoke what it replaces\n", count(active, "key"))
	} else if there && len(last.Batch.Signature) == 0 {
		fmt.Fprintf(out, "WARNING its last batch (run %d sequence %d, minute %s) is not signed: until its collector has the key, its batches are set aside and measure nothing\n",
			last.Batch.Run, last.Batch.Seq, last.Batch.Minute.Start())
	}
	return nil
}

func revokeCommand() *cobra.Command {
	var s statement
	c := &cobra.Command{
		Use: "revoke NODE", Short: "State that a node does not sign with a key any more, for good", Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			s.node = args[0]
			key, err := s.public()
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error { return revoke(c.Context(), c.OutOrStdout(), e, s, key) })
		},
	}
	s.flags(c)
	return c
}

func revoke(ctx context.Context, out io.Writer, e nodeLog, s statement, key fact.PublicKey) error {
	r, err := nodes.Read(ctx, e.Bus())
	if err != nil {
		return err
	}
	known, ok := r.Key(s.node, key)
	switch {
	case !ok:
		return unknownKey(r, s.node, key)
	case known.Revoked > 0:
		fmt.Fprintf(out, "key %s of node %s is revoked since fact %d; nothing changes\n", key.Fingerprint(), s.node, known.Revoked)
		return nil
	}
	f := fact.Fact{Key: "node.revoked/" + s.node + "/" + key.String(), Body: &fact.NodeRevoked{Node: s.node, PublicKey: key, By: s.by, Note: s.note}}
	if err := f.Body.Validate(); err != nil {
		return err
	}
	if err := e.State(ctx, f); err != nil {
		return err
	}
	fmt.Fprintf(out, "key %s of node %s counts for nothing any more\n", key.Fingerprint(), s.node)
	if len(r.Active(s.node)) == 1 {
		fmt.Fprintln(out, "WARNING it was the node's only key: every batch of it is set aside and measures nothing until another key is enrolled")
	}
	return nil
}

func unknownKey(r *nodes.Register, node string, key fact.PublicKey) error {
	var known []string
	for _, k := range r.Keys.Node(node) {
		known = append(known, fmt.Sprintf("\n  %s  %s  %s", k.Public, k.Public.Fingerprint(), keyState(k)))
	}
	if len(known) == 0 {
		return fmt.Errorf("no key is stated of node %s; `gpuhour node list` shows the nodes that have one", node)
	}
	return fmt.Errorf("key %s is not stated of node %s; its keys are%s", key.Fingerprint(), node, strings.Join(known, ""))
}

func permissionsCommand() *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use: "permissions NODE", Short: "Print the NATS user of a node for the server's settings", Args: takes(1, 1),
		Long: `permissions prints what the server's settings need so that this node may publish its own batches,
to the log or through an ingest, ask for its own last one, and nothing else. deploy/nats/nodes.conf
shows where it goes. With several keys it prints a user for each: so a key is changed without a
gap.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := (&fact.NodeEnrolled{Node: args[0], PublicKey: fact.PublicKey{1}, By: "x"}).Validate(); err != nil {
				return err
			}
			for _, k := range keys {
				if !nkeys.IsValidPublicUserKey(k) {
					return fmt.Errorf("--nkey %q: write a user's public key, which begins with U and has 56 letters and digits; `gpuhour node nkey` prints one", k)
				}
			}
			fmt.Fprint(c.OutOrStdout(), natsbus.PublisherUsers(args[0], codec.UsageSubject(args[0]), wire.Subject(codec.UsageSubject(args[0])), codec.Token(args[0]), keys))
			return nil
		},
	}
	c.Flags().StringSliceVar(&keys, "nkey", nil, "public nkey of the node's connection (U...); may be given again")
	return c
}

// stamp is a time of the log's server.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
