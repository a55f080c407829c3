//go:build unix

package livetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// Cost is what a live collector took in real time.
type Cost struct {
	Stats      live.Stats
	CPU        time.Duration // of the whole process, all threads, for each second
	RSS        int64         // bytes in memory in the end; 0 where the system does not say
	SpoolBytes int64
}

// Measure runs a collector on this machine's clock and a real disk for some seconds. open is as in live.SamplerConfig; folder is empty.
func Measure(open func() (collector.Hardware, error), folder string, d time.Duration) (c Cost, err error) {
	files, err := spool.Dir(folder)
	if err != nil {
		return c, err
	}
	sp, err := spool.Open(files, spool.Options{})
	if err != nil {
		return c, err
	}
	sampler := live.NewSampler(live.SamplerConfig{Open: open})
	l := live.New(live.Config{Node: collector.Node{Name: "bench", Source: sampler}, Boot: "bench", Spool: sp, Log: &Stream{}})
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	before := used()
	err = l.Run(ctx)
	c.CPU = time.Duration(float64(used()-before) / d.Seconds())
	c.RSS = resident()
	c.Stats = l.Stats()
	c.SpoolBytes = sp.Stats().Bytes
	farewell, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	hung, closed := sampler.Close(farewell)
	if hung > 0 {
		closed = errors.Join(closed, fmt.Errorf("%d calls hang", hung))
	}
	return c, errors.Join(err, closed, sp.Close())
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
