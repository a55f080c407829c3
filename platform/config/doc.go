// Package config owns the one configuration struct: its defaults, its sources (file, then environment, then flags; the later
// wins) and its checks. Every key can be set in all three ways.
//
// It does not own what a setting does.
package config
