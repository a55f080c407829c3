package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// A contract is a document, kept as it was signed. This one bills H100 GPUs by the second, at least one minute a start.
const contract = `
contract: acme-2026
customer: acme
currency: USD
timezone: America/New_York
term: {from: 2026-03-01, to: 2027-03-01}
billing: {cycle: monthly, anchor: 1, grace: 1h, granularity: second, minimum: 60s}
rates:
  - sku: h100
    on_demand: 2.50/gpu-hour
    region: {us-east: 100%, us-west: 92%}
`

func main() {
	data := flag.String("data", "", "directory for the log and the tables; empty: in memory, gone afterwards")
	flag.Parse()
	if err := run(context.Background(), *data, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embed-go:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data string, out io.Writer) (err error) {
	// 1. Open the engine. With a directory, NATS JetStream and ClickHouse run inside this process and keep everything; the
	// first run fetches ClickHouse once. A directory has one owner at a time.
	cfg := gpuhour.DefaultConfig()
	cfg.Data = data
	engine, err := gpuhour.Open(ctx, cfg, gpuhour.Options{Memory: data == "", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()

	// 2. Say whose clock the log follows. A real host leaves this out and runs engine.Serve in a goroutine: time is then the
	// machine's. A scripted clock lets a month pass in a moment.
	if err := engine.Declare(ctx, fact.Scripted); err != nil {
		return err
	}

	// 3. State facts as they happen, and move time. A fact's key names it: stated twice, it counts once, so after any error
	// the same call can be made again. That also makes this program safe to run twice on one directory.
	for _, known := range month() {
		if err := engine.State(ctx, known.fact); err != nil {
			return err
		}
		if err := engine.Advance(ctx, instant(known.at)); err != nil {
			return err
		}
	}

	// 4. Let the month end. The invoice is issued when the period's grace has passed; until then engine.Preview shows it.
	if err := engine.Advance(ctx, instant("04-02 00:00:00")); err != nil {
		return err
	}

	// 5. An invoice is a document of frozen bytes, in order of number in engine.Invoices. Here it is printed for people. If
	// none was issued, engine.Blocked says why and what to state.
	d, err := engine.Invoice(ctx, "GH-000001")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, render.Invoice(d, render.Options{Width: 100}))
	return nil
}

// known is a fact and when this host learns of it.
type known struct {
	at   string
	fact fact.Fact
}

// month is what a provider's scheduler would tell: a lease of two GPUs that grows, then a start too short for the minimum.
func month() []known {
	gpu := func(n int) fact.Share {
		return fact.Share{Node: "node-1", Device: fmt.Sprintf("GPU-%d", n), ShareMilli: fact.WholeShareMilli}
	}
	tell := func(at, key string, body fact.Body) known { return known{at, fact.Fact{Key: key, Body: body}} }
	lease := func(id, region, at string, devices ...fact.Share) *fact.LeaseStarted {
		return &fact.LeaseStarted{
			Lease: id, Customer: "acme", SKU: "h100", PricingMode: "on_demand", Region: region, At: instant(at), Devices: devices,
		}
	}
	return []known{
		tell("03-01 08:00:00", "acme-2026", &fact.ContractSigned{Contract: "acme-2026", Customer: "acme", Document: contract}),
		tell("03-03 09:00:00", "train/start", lease("train", "us-east", "03-03 09:00:00", gpu(0), gpu(1))),
		tell("03-10 09:00:00", "train/grow", &fact.LeaseResized{Lease: "train", At: instant("03-10 09:00:00"), Devices: []fact.Share{gpu(0), gpu(1), gpu(2)}}),
		tell("03-12 21:00:00", "train/stop", &fact.LeaseStopped{Lease: "train", At: instant("03-12 21:00:00"), By: fact.ByCustomer}),
		tell("03-20 10:00:00", "try/start", lease("try", "us-west", "03-20 10:00:00", gpu(0))),
		tell("03-20 10:00:20", "try/stop", &fact.LeaseStopped{Lease: "try", At: instant("03-20 10:00:20"), By: fact.ByCustomer}),
	}
}

// instant is a moment of 2026 in UTC, in seconds since 1970.
func instant(text string) span.Second {
	t, err := time.Parse(time.DateTime, "2026-"+text)
	if err != nil {
		panic(err)
	}
	return span.Second(t.Unix())
}
