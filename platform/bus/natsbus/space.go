//go:build linux || darwin

package natsbus

import "syscall"

// freeBytes is what the disk under a directory has left for this user.
func freeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
