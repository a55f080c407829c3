package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
	"github.com/gpuhour/gpuhour/services/nodes"
)

func discloseCommand() *cobra.Command {
	var device, out string
	c := &cobra.Command{
		Use: "disclose NODE/RUN/SEQ", Short: "Write one device's part of a signed batch into a file that its customer can check", Args: takes(1, 1),
		Long: `disclose shows one device of one batch and proves it: the file holds the device's block with its
salt, hashes of the other blocks, which say nothing of them, and the node's signature. It also holds
the batch's head, whose gaps and topology name the node's other devices. Anybody can check the file
with ` + "`gpuhour verify-block`" + `, without the log.`,
		RunE: func(c *cobra.Command, args []string) error {
			if device == "" || out == "" {
				return fmt.Errorf("--device and --out: name the device, and the file to write; %s", c.UseLine())
			}
			node, run, seq, err := batchName(args[0])
			if err != nil {
				return err
			}
			return attach(c, func(e *gpuhour.Engine) error {
				d, err := disclose(c.Context(), e.Bus(), node, run, seq, device)
				if err != nil {
					return err
				}
				data, err := d.Bytes()
				if err == nil {
					err = newFile(out, data)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "%s proves what device %s said in minute %s, signed with key %s of node %s\nits reader runs `gpuhour verify-block %s --key %s`\n",
					out, device, span.Minute(d.UnixMinute).Start(), d.PublicKey.Fingerprint(), node, out, d.PublicKey)
				return nil
			})
		},
	}
	settings(c)
	c.Flags().StringVar(&device, "device", "", "name of the device, as in the lease")
	c.Flags().StringVar(&out, "out", "", "file to write (JSON)")
	return c
}

func disclose(ctx context.Context, b bus.Bus, node string, run, seq uint64, device string) (*trust.Disclosure, error) {
	r, err := nodes.Read(ctx, b)
	if err != nil {
		return nil, err
	}
	h, err := nodes.Find(ctx, b, node, run, seq)
	if err != nil {
		return nil, err
	}
	key, ok := r.Keys.Signer(&h.Batch)
	if !ok && len(h.Batch.Signature) > 0 {
		return nil, fmt.Errorf("no key that is stated of node %s signed run %d sequence %d: a disclosure of it would prove nothing", node, run, seq)
	}
	return trust.Disclose(&h.Batch, device, key.Public)
}

func verifyBlockCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "verify-block FILE", Short: "Check a disclosed block without the log, and print what it says second by second", Args: takes(1, 1),
		Long: `verify-block checks that the node's key signed the block in FILE, as ` + "`gpuhour node disclose`" + ` writes
it. It needs neither log nor network. Whose key it is only the provider's word says: give the key
you were told with --key, or compare the fingerprint.`,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := look(c)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the disclosure: %w", err)
			}
			d, err := trust.ParseDisclosure(data)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if key != "" {
				want, err := nodekey.Public(key)
				if err != nil {
					return err
				}
				if want != d.PublicKey {
					return fmt.Errorf("%s NOT PROVEN: it is signed with key %s, and you expect %s", args[0], d.PublicKey.Fingerprint(), want.Fingerprint())
				}
			}
			block, err := d.Check()
			if err != nil {
				return fmt.Errorf("%s NOT PROVEN: %w", args[0], err)
			}
			printBlock(c.OutOrStdout(), d, block, key != "", o)
			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "the node's public key as you were told it (ed25519:...), or a file that holds it")
	return c
}

func printBlock(out io.Writer, d *trust.Disclosure, b *usage.Block, known bool, o render.Options) {
	compare := "compare it with what the provider told you"
	if known {
		compare = "the one you expect"
	}
	fmt.Fprintf(out, `PROVEN: node %s signed this.
  device     %s, block %d of %d
  batch      run %d sequence %d, boot %s
  key        %s (%s)
  clock      %s

`, d.Node, d.Device, d.Place+1, len(d.Hashes), d.Run, d.Seq, orNone(d.Boot), d.PublicKey.Fingerprint(), compare, clockText(d.Head().Clock))
	t := render.Table{Width: o.Width, Colour: o.Colour, Columns: []render.Column{
		{Head: "Second (UTC)"},
		{Head: "Busy", Align: render.Right},
		{Head: "Memory", Align: render.Right},
		{Head: "Power", Align: render.Right},
		{Head: "Energy", Align: render.Right},
		{Head: "Throttle", Align: render.Right},
		{Head: "Faults", Fit: render.Fill},
	}}
	head := d.Head()
	head.Spoken.Each(func(i int) {
		at := head.Minute.Start() + span.Second(i)
		if !b.Seen.Has(i) {
			t.Row(at.String(), "not seen", "", "", "", "", faultsText(b, i))
			return
		}
		busy := "unknown"
		if b.Busy[i] != usage.BusyUnknown {
			busy = fmt.Sprintf("%d %%", b.Busy[i])
		}
		t.Row(at.String(), busy, value(&b.Memory, i, bytesText), value(&b.Power, i, func(v int64) string { return fmt.Sprintf("%d.%03d W", v/1000, v%1000) }),
			value(&b.Energy, i, func(v int64) string { return fmt.Sprintf("%d.%03d J", v/1000, v%1000) }),
			value(&b.Throttle, i, func(v int64) string { return fmt.Sprintf("%#x", uint64(v)) }), faultsText(b, i))
	})
	fmt.Fprint(out, t.String())
	if b.Reason != usage.ReasonNone {
		fmt.Fprintf(out, "why values are unknown: %s\n", usage.GapReason(b.Reason))
	}
	fmt.Fprintf(out, "%s spoken for, %d seen. Energy is the device's running counter.\n", count(head.Spoken.Count(), "second"), b.Seen.Count())
}

func value(s *usage.Series, i int, text func(int64) string) string {
	if !s.Known.Has(i) {
		return "unknown"
	}
	if s.Values[i] == 0 {
		return "0"
	}
	return text(s.Values[i])
}

func faultsText(b *usage.Block, second int) string {
	var all []string
	for _, f := range b.Faults {
		if int(f.Second) == second {
			all = append(all, faultText(f))
		}
	}
	return strings.Join(all, ", ")
}

// nodeKey is the key that a collector signs with: the named file, or the one that keygen wrote into the data directory when it is
// there. Without either it signs nothing.
func nodeKey(cfg gpuhour.Config, path string) (*nodekey.Key, error) {
	if path == "" {
		path = cfg.Path(nodekey.FileName)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return nil, nil
		}
	}
	return nodekey.Read(path)
}
