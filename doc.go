// Package gpuhour embeds the metering and billing engine in a Go program: the same log, ledger and invoices as the
// gpuhour command, behind four calls.
//
//	engine, err := gpuhour.Open(ctx, gpuhour.DefaultConfig(), gpuhour.Options{})
//	defer engine.Close()
//	go engine.Serve(ctx)                       // clock, rater, invoicer and alerter until ctx ends
//	err = engine.State(ctx, facts...)          // leases, contracts
//	invoices, err := engine.Invoices(ctx)
//
// With no address in the configuration both engines, NATS JetStream and ClickHouse, run inside the process; with
// addresses they are real clusters. Nothing else changes.
//
// The package owns wiring: which engines run and where, which services step. It does not own any rule of metering or
// billing (core/).
package gpuhour
