// Package quote owns the what-if: what a customer's past use would have cost under other contracts, and in other pricing modes
// (design page 3, What-if). A quote is a function of a log's facts and samples: it rates them again with the customer's leases under
// the contract in question, so the quote of the own contract is its bill.
//
// It does not own prices, quantities or lines (core/price, core/meter, core/bill), nor how a quote looks (services/invoicer/render).
package quote
