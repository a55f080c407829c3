// Command embed-go is a provider's own program with the billing engine inside. It owns one month of one customer, as an
// example; it does not own any rule of metering or billing: those are the library's.
package main
