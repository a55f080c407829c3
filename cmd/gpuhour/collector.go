package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/exporter"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/collector/nvml"
	"github.com/gpuhour/gpuhour/services/collector/smi"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

func collectorCommand() *cobra.Command {
	var from sources
	var to destination
	var once bool
	c := &cobra.Command{
		Use:   "collector",
		Short: "Sample this node's GPUs once a second and send what they say to the log",
		Long: `The collector samples every GPU and slice of this node once a second: NVIDIA's through the driver's
library, or as nvidia-smi prints them (--nvidia-smi), others through the pages of their exporters
(--endpoint). Each batch of ten seconds is in the spool before it is sent; what the log does not
take waits there, for hours if need be. What was not seen is in the log as a gap with its reason.
--once shows what it sees and sends nothing. docs/collector.md has every gap, every alarm, and what
to do about them.`,
		Example: `  gpuhour collector --once
  gpuhour collector --once --endpoint http://127.0.0.1:9400/metrics
  gpuhour collector --nats-url tls://nats.example.net:4222 --nats-nkey nats.nk`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, _ []string) error {
			open, err := from.opener(c)
			if err != nil {
				return err
			}
			if once {
				return showOnce(c, open)
			}
			return collect(c, open, to)
		},
	}
	from.flags(c)
	to.flags(c)
	c.Flags().BoolVar(&once, "once", false, "show what is seen now, and end")
	c.AddCommand(recordCommand(), replayCommand())
	return c
}

// sources say what is sampled.
type sources struct {
	library   string
	endpoints []string
	vendor    string
	smi       bool
}

func (s *sources) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&s.endpoints, "endpoint", nil, "page of dcgm-exporter, AMD's device-metrics-exporter or Ascend's npu-exporter to read instead of NVML, like http://127.0.0.1:9400/metrics")
	c.Flags().StringVar(&s.vendor, "vendor", "", "whose exporter it is: nvidia, amd or ascend; told by its page when not given")
	c.Flags().BoolVar(&s.smi, "nvidia-smi", false, "read what nvidia-smi --query-gpu=uuid,utilization.gpu,memory.used,power.draw --format=csv -l 1 prints, from standard input")
	c.Flags().StringVar(&s.library, "nvml-library", "", "path of libnvidia-ml.so.1, where the loader does not find it")
}

// opener says how a session with the hardware is begun. What a person wrote wrong is found now, what is missing on the machine later.
func (s *sources) opener(c *cobra.Command) (func() (collector.Hardware, error), error) {
	if s.smi {
		return s.follow(c)
	}
	if len(s.endpoints) == 0 {
		if c.Flags().Changed("endpoint") {
			return nil, errors.New("--endpoint is empty; write an exporter's address, like http://127.0.0.1:9400/metrics, or leave it out")
		}
		if s.vendor != "" {
			return nil, errors.New("--vendor says whose page an --endpoint is; there is none")
		}
		if !hasNVML {
			return nil, errors.New("this build of gpuhour has no NVML; use one that was built on Linux with CGO_ENABLED=1 and a C compiler, or read an exporter with --endpoint, or nvidia-smi with --nvidia-smi")
		}
		return s.openNVML, nil
	}
	if s.library != "" {
		return nil, errors.New("--nvml-library and --endpoint: a collector reads the driver or exporters; run two, with two names, for both")
	}
	vendor, err := exporter.ParseVendor(s.vendor)
	if err != nil {
		return nil, fmt.Errorf("--vendor: %w", err)
	}
	options := exporter.Options{URLs: s.endpoints, Vendor: vendor}
	if _, err := exporter.Open(options); err != nil {
		return nil, fmt.Errorf("--endpoint: %w", err)
	}
	return func() (collector.Hardware, error) { return exporter.Open(options) }, nil
}

// follow says how nvidia-smi's output is read: once, whatever becomes of a session, since a second reader would take lines from the first.
func (s *sources) follow(c *cobra.Command) (func() (collector.Hardware, error), error) {
	if s.library != "" || s.vendor != "" || c.Flags().Changed("endpoint") {
		return nil, errors.New("--nvidia-smi and --endpoint, --vendor or --nvml-library: a collector has one source; run two, with two names, for both")
	}
	in := c.InOrStdin()
	if f, ok := in.(*os.File); ok {
		if about, err := f.Stat(); err == nil && about.Mode().IsRegular() {
			return nil, errors.New("--nvidia-smi: standard input is a file, of which nobody knows when its rows came; play it with `gpuhour collector replay`, or put | before gpuhour")
		}
	}
	stream := sync.OnceValue(func() collector.Hardware {
		return smi.Follow("standard input", struct{ io.Reader }{in}, smi.FollowOptions{}) // stays open when a session is closed
	})
	return func() (collector.Hardware, error) { return stream(), nil }, nil
}

// openNVML says, where the driver cannot be reached, which flags lead around it.
func (s *sources) openNVML() (collector.Hardware, error) {
	h, err := nvml.Open(nvml.Options{LibraryPath: s.library})
	if err != nil {
		return nil, fmt.Errorf("%w; a library in another place is named with --nvml-library, and GPUs of other vendors are read through their exporter, with --endpoint", err)
	}
	return h, nil
}

// destination says as whom, where to and through what a node's usage goes.
type destination struct {
	node, spool, key string
	limitMiB         int64
	ingest           bool
}

// flags adds those of a command that sends, and the settings that it uses: the log, and no tables.
func (d *destination) flags(c *cobra.Command) {
	settings(c)
	c.Flags().Lookup("http-listen").Hidden = false
	c.Flags().Lookup("nats-url").Usage = "address of the log's NATS server; empty: that of the gpuhour that runs on the data directory"
	c.Flags().Lookup("data").Usage = "directory of the spool and the node's key where they are not named"
	for _, name := range []string{"clickhouse-database", "clickhouse-url"} {
		c.Flags().Lookup(name).Hidden = true
	}
	host, _ := os.Hostname() // without a name --node is asked for
	c.Flags().StringVar(&d.node, "node", host, "name of this node")
	c.Flags().StringVar(&d.spool, "spool", "", "spool directory; spool/NODE below the data directory when not given")
	c.Flags().Int64Var(&d.limitMiB, "spool-limit", 256, "MiB that the spool may take: a day of eight busy GPUs without a log takes some 10")
	c.Flags().StringVar(&d.key, "key", "", "the node's private key, with which batches are signed; "+nodekey.FileName+" in the data directory where that is there")
	c.Flags().BoolVar(&d.ingest, "ingest", false, "send through an ingest, as in a large fleet, and not to the log itself")
}

// connection is a log and what it runs over.
type connection struct {
	collector.Log
	io.Closer
}

// log is where batches go, reached when there are some.
func (d *destination) log(cfg config.Config) *collector.Dialled {
	return collector.Dial(func(ctx context.Context) (collector.Connection, error) {
		bus, err := gpuhour.DialNode(ctx, cfg, d.node)
		if err != nil {
			return nil, err
		}
		return connection{d.over(bus), bus}, nil
	})
}

func (d *destination) over(bus *natsbus.Bus) collector.Log {
	if d.ingest {
		return ingestlog.New(bus)
	}
	return buslog.New(bus)
}

// road is everything behind a source: spool, key, log.
type road struct {
	cfg    config.Config
	log    *slog.Logger
	node   string
	path   string // of the spool
	spool  *spool.Spool
	key    *nodekey.Key // nil: nothing is signed
	remote *collector.Dialled
}

// maxLimitMiB is a tebibyte: more is a mistake in the unit.
const maxLimitMiB = 1 << 20

// check finds what a person wrote wrong.
func (d *destination) check(cfg config.Config) error {
	switch {
	case d.node == "":
		return errors.New("--node: the name is empty; give this node one")
	case len(d.node) > usage.MaxNameBytes:
		return fmt.Errorf("--node: the name has %d bytes; at most %d", len(d.node), usage.MaxNameBytes)
	case !utf8.ValidString(d.node) || strings.ContainsFunc(d.node, unicode.IsControl):
		return fmt.Errorf("--node %q: a name is plain text", d.node)
	case d.limitMiB < 1 || d.limitMiB > maxLimitMiB:
		return fmt.Errorf("--spool-limit %d; write 1 to %d (MiB)", d.limitMiB, maxLimitMiB)
	}
	if dataThere(cfg) != nil {
		return fmt.Errorf("no gpuhour runs on the data directory %q, which is not there; name the log with --nats-url, or the directory of the gpuhour on this machine with --data", cfg.Data)
	}
	return nil
}

// folder is a node's name as that of a folder: one name, one folder, below its parent whatever the name is.
func folder(node string) string {
	name := url.PathEscape(node)
	switch {
	case len(name) > 200: // file systems end at 255
		return codec.Token(node)
	case name[0] == '.':
		return "%2E" + name[1:]
	default:
		return name
	}
}

// open prepares a node's road. Nothing of it needs the log to answer.
func (d *destination) open(c *cobra.Command) (*road, error) {
	cfg, err := config.Load(c.Flags())
	if err != nil {
		return nil, err
	}
	r := &road{cfg: cfg, node: d.node, path: d.spool, remote: d.log(cfg)}
	if err := d.check(cfg); err != nil {
		return nil, err
	}
	if r.log, err = obs.Logger(c.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format); err != nil {
		return nil, err
	}
	if r.key, err = nodeKey(cfg, d.key); err != nil {
		return nil, err
	}
	if r.path == "" {
		r.path = cfg.Path("spool", folder(d.node))
	}
	files, err := spool.Dir(r.path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; give the folder to the user that runs the collector, or name another one with --spool", err)
	}
	if err != nil {
		return nil, err
	}
	if r.spool, err = spool.Open(files, spool.Options{MaxBytes: d.limitMiB << 20}); err != nil {
		return nil, fmt.Errorf("folder %s: %w (to go on without it, move the folder aside and keep it: an empty one is made)", r.path, err)
	}
	for _, n := range r.spool.Notes() {
		r.log.Warn("spool", "note", n)
	}
	if !c.Flags().Changed("node") && passing(d.node) {
		r.log.Warn("this machine's name is that of a container, or everybody's; give the node the name that leases use with --node", "node", d.node)
	}
	return r, nil
}

// passing tells that a machine's name is none to keep: that of a container, which is another one at its next start, or what every
// machine calls itself.
func passing(host string) bool {
	return strings.HasPrefix(host, "localhost") || len(host) == 12 && strings.Trim(host, "0123456789abcdef") == ""
}

// run samples a source until ctx ends, and then ends as it should. sampler is nil for a source that is none.
func (r *road) run(ctx context.Context, source collector.Source, sampler *live.Sampler) (loop *live.Loop, err error) {
	boot, err := live.BootID()
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	settings := live.Config{Node: collector.Node{Name: r.node, Source: source}, Boot: boot, Spool: r.spool, Log: r.remote, Logger: r.log}
	if r.key != nil {
		settings.Signer = r.key
		r.log.Info("batches are signed", "key", r.key.Public().Fingerprint())
	}
	loop = live.New(settings)
	metrics := obs.NewMetrics(gpuhour.Version)
	metrics.Register(live.Metrics{Loop: loop, Sampler: sampler})
	var running sync.WaitGroup
	serving, stop := context.WithCancel(ctx)
	if r.cfg.HTTP.Listen != "" {
		running.Go(func() {
			if err := metrics.Serve(serving, r.cfg.HTTP.Listen); err != nil {
				r.log.Error("metrics are not served; sampling goes on without them", "error", err)
			}
		})
	}
	metrics.Ready(true)
	err = loop.Run(ctx)
	metrics.Ready(false)
	stop()
	running.Wait()
	if errors.Is(err, live.ErrStuck) {
		return loop, err // a call hangs in the spool or the log: they end with the process
	}
	return loop, errors.Join(err, r.close())
}

func (r *road) close() error { return errors.Join(r.spool.Close(), r.remote.Close()) }

// told says at the end what was done and what is left.
func (r *road) told(c *cobra.Command, loop *live.Loop) {
	st := loop.Stats()
	fmt.Fprintf(c.OutOrStdout(), "%s sampled; the log took %s", count(int(st.DeviceSeconds), "GPU-second"), count(int(st.Publisher.Published+st.Publisher.Adopted), "batch"))
	if st.Spool.Unsent > 0 {
		fmt.Fprintf(c.OutOrStdout(), "; %s in %s, for the next start to send", count(st.Spool.Unsent, "batch"), r.path)
	}
	fmt.Fprintln(c.OutOrStdout())
}

func collect(c *cobra.Command, open func() (collector.Hardware, error), to destination) error {
	r, err := to.open(c)
	if err != nil {
		return err
	}
	sampler := live.NewSampler(live.SamplerConfig{Open: open, Log: r.log})
	r.log.Info("sampling once a second", "node", r.node, "spool", r.path)
	loop, err := r.run(c.Context(), sampler, sampler)
	ending, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 5*time.Second)
	defer cancel()
	hung, closing := sampler.Close(ending)
	if hung > 0 {
		r.log.Warn("calls hang in the driver; they end with the process", "calls", hung)
	}
	if loop != nil {
		r.told(c, loop)
	}
	return errors.Join(err, closing)
}
