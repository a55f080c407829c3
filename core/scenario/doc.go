// Package scenario owns the scenario file: contracts, what happened, which periods close and the expected bill, in one YAML
// text that an accountant can read (design page 3, Scenario files). A file becomes the input of a replay, and the result of
// the replay is held against the file. Rewrite writes the expectations anew from a result.
//
// docs/scenario.md is the same for accountants, with examples.
//
// It does not own the contract language (core/contract), the road from facts to invoices (core/replay) or the files
// themselves (core/cases).
//
// The fields of a file:
//
//	story: a sentence; mandatory
//	stack: true          the file is also played on the real engines, which must give the same documents; default false
//	grace: 3d            the provider's grace, for contracts that state none; 3h when absent
//	contracts: [...]     contract documents, known before all else
//	events:              at: an instant with its offset; known: when it was learnt (default at); key: its name, so that a
//	                     repeat is one; and one of lease_started, lease_resized, lease_state_changed, lease_stopped,
//	                     refusal_waived, refusal_carried, contract_amended {contract, document}, price_book_published,
//	                     spot_price_changed, meter_recorded, package_purchased, package_ended, contract_terminated,
//	                     device_declared, with the fields of core/fact.
//	                     refused: part of the reason for which the edge must not take the statement at all.
//	                     Or from, to, samples: {node, device, util: 0 to 100 | unknown, missing: [{from, to}], run, known,
//	                     batch: 60s}. The node speaks for all of the span, also where the device is missing.
//	close: [...]         {contract, period}: the scenario runs until each has fallen due, and everything due by then closes.
//	                     period is the month (2026-02), date or instant in the contract's zone at which it starts.
//	expect: [...]        {contract, period, kind: invoice | correction, total, lines, refused, waived, free,
//	                     unobserved} or
//	                     {contract, period, blocked: part of the reason, refused ...}. The second correction of a
//	                     period is the second entry. What is not stated is not compared, but lines are all the lines:
//	                     {quantity, amount, coverage: {measured, inferred, missing, top_up}, rows: [{quantity,
//	                     per_gpu_hour}], sku, region, service_tier, pricing_mode, dedicated, window (none for time outside all
//	                     windows), and item, name and count ("12.5 GB") of what is not GPU time}. Coverage is time of a whole GPU.
//	refusals: [...]      {reason} of every statement or message that cannot be taken, as it stands at the end
//	unbilled: [...]      {reason, quantity} of all time that found no contract
//	devices: [...]       {device, seen_leased, seen_unleased, ghost, leak}
package scenario
