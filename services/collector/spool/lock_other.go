//go:build !unix

package spool

import "os"

// lock does nothing where the system has no advisory locks: there the operator keeps to one process a folder.
func lock(*os.File) error { return nil }
