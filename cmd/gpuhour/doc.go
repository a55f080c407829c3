// Command gpuhour meters, prices, bills and proves GPU rental. One binary holds every service and every tool.
//
// It owns flags, wiring, signals and what is printed. It does not own any rule: it calls package gpuhour.
package main
