package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/smi"
)

func recordCommand() *cobra.Command {
	var from sources
	var out string
	var length time.Duration
	c := &cobra.Command{
		Use:   "record",
		Short: "Write what this node's GPUs say into a file, for `gpuhour collector replay`",
		Args:  takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			open, err := from.opener(c)
			if err != nil {
				return err
			}
			switch {
			case out == "":
				return errors.New("--out: name the file of the recording")
			case length < 0 || length%time.Second != 0:
				return fmt.Errorf("--for %v: write whole seconds, like 10m, or 0 to record until it is interrupted", length)
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s is there already and stays; name another file with --out", out)
			}
			if err != nil {
				return fmt.Errorf("write the recording: %w", err)
			}
			return errors.Join(record(c, open, f, length), f.Sync(), f.Close())
		},
	}
	from.flags(c)
	c.Flags().StringVar(&out, "out", "", "file of the recording (CSV)")
	c.Flags().DurationVar(&length, "for", 0, "how long, like 10m; 0: until it is interrupted")
	return c
}

// record writes every second that ends until ctx does, or length is over. Seconds that it misses stay out: they were slept through.
func record(c *cobra.Command, open func() (collector.Hardware, error), to io.Writer, length time.Duration) error {
	ctx := c.Context()
	log, err := obs.Logger(c.ErrOrStderr(), "warn", "text")
	if err != nil {
		return err
	}
	sampler := live.NewSampler(live.SamplerConfig{Open: open, Log: log})
	w := recorded.NewWriter(to)
	fmt.Fprintln(c.ErrOrStderr(), "recording; interrupt it to stop")
	seconds, failed, err := recordSeconds(ctx, sampler, w, length)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, closing := sampler.Close(ending)
	if err = errors.Join(err, closing); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s recorded", count(seconds-int(w.Skipped()), "second"))
	if n := w.Skipped(); n > 0 {
		fmt.Fprintf(c.OutOrStdout(), "; %s left out, because the clock was set back over them", count(int(n), "second"))
	}
	fmt.Fprintln(c.OutOrStdout())
	if failed != nil {
		return fmt.Errorf("nothing of this node was seen at the end: %w", failed)
	}
	return nil
}

// recordSeconds records from the second that is under way on. It returns how many seconds it wrote, and why the last of them saw
// nothing.
func recordSeconds(ctx context.Context, sampler *live.Sampler, w *recorded.Writer, length time.Duration) (seconds int, failed, err error) {
	var told any
	begun := time.Now().Truncate(time.Second)
	for length == 0 || time.Now().Before(begun.Add(length)) {
		now := time.Now()
		edge := now.Truncate(time.Second).Add(time.Second)
		select {
		case <-ctx.Done():
			return seconds, failed, nil
		case <-time.After(edge.Sub(now)):
		}
		ended := span.Second(edge.Unix() - 1)
		var readings []collector.Reading
		readings, failed = sampler.Sample(ended, nil)
		if t := sampler.Topology(); t != nil && any(t) != told {
			told = t
			w.Topology(*t)
		}
		if err := w.Write(ended, readings, failed != nil); err != nil {
			return seconds, failed, err
		}
		seconds++
	}
	return seconds, failed, nil
}

func replayCommand() *cobra.Command {
	var to destination
	var loop bool
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a recording as if it happened now, and send it to the log",
		Long: `Replay plays a recording at this machine's own clock, as a collector that samples real GPUs would. A
recording is CSV as ` + "`gpuhour collector record`" + ` writes it, or by hand with the first line
  ` + recorded.Header + `
where seconds count from 0 and an empty cell could not be read. A file of what
nvidia-smi --query-gpu=timestamp,uuid,... --format=csv -l 1 printed plays too.`,
		Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("read the recording: %w", err)
			}
			rec, err := readRecording(args[0], f)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			for _, n := range rec.Notes {
				fmt.Fprintln(c.ErrOrStderr(), n)
			}
			return playBack(c, rec, to, loop)
		},
	}
	to.flags(c)
	c.Flags().BoolVar(&loop, "loop", false, "begin the recording again when it ends")
	return c
}

// readRecording reads a recording, or what nvidia-smi printed: a header of it among the first lines tells. Lines of that which are not used are
// told, ten of them one by one.
func readRecording(name string, r io.Reader) (*recorded.Recording, error) {
	in := bufio.NewReader(r)
	head, _ := in.Peek(in.Size()) // an error comes again when it is read
	if !smi.Headed(string(head)) {
		return recorded.ReadCSV(name, in)
	}
	res, err := smi.Read(name, in, smi.Options{})
	if err != nil {
		return nil, err
	}
	for _, b := range res.Bad[:min(len(res.Bad), 10)] {
		res.Recording.Notes = append(res.Recording.Notes, b.String())
	}
	if more := res.BadCount - 10; more > 0 {
		res.Recording.Notes = append(res.Recording.Notes, fmt.Sprintf("%s: %d more lines are not used", name, more))
	}
	return res.Recording, nil
}

func playBack(c *cobra.Command, rec *recorded.Recording, to destination, again bool) error {
	r, err := to.open(c)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(c.Context())
	defer end()
	played := &ending{Source: rec.From(span.Second(time.Now().Unix())+1, again), end: end}
	fmt.Fprintf(c.ErrOrStderr(), "playing %s of node %s, once a second; interrupt it to stop\n", count(int(rec.Seconds), "second"), r.node)
	loop, err := r.run(ctx, played, nil)
	if loop != nil {
		r.told(c, loop)
	}
	return err
}

// ending is a recording that stops the loop after its last second.
type ending struct {
	*recorded.Source
	end func()
}

// Sample implements collector.Source.
func (e *ending) Sample(at span.Second, into []collector.Reading) ([]collector.Reading, error) {
	if at >= e.Window.To-1 {
		e.end()
	}
	return e.Source.Sample(at, into)
}
