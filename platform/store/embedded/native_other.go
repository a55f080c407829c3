//go:build !((linux || darwin) && (amd64 || arm64))

package embedded

import "os"

// There is no engine library for this platform: Library says so before anything here is reached.
func dlopen(string) (*library, error) { return nil, errPlatform() }

func makeWritable(string) error { return errPlatform() }

func tryLock(*os.File) (bool, error) { return false, errPlatform() }

func isFull(error) bool { return false }
