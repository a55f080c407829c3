// Package money owns exact amounts: currencies with their minor digits, rational amounts, named rounding to minor units,
// allocation by largest remainder, and the reading and writing of decimals and percentages.
//
// It does not own prices, quantities or what a line is (core/price, core/bill); nothing here is a float and nothing
// rounds unless Round is called by name.
package money
