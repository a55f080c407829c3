package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Version is the release of libchdb that this package is written and tested against: ClickHouse 26.7.
const Version = "26.7.3-stable.1"

// LibraryEnv names the environment variable that holds the path of a libchdb to use instead of a fetched one.
const LibraryEnv = "GPUHOUR_LIBCHDB"

// source is an npm package that carries libchdb for one platform.
type source struct {
	pkg       string
	integrity string // sha512 of the packed file, in npm's form (Subresource Integrity)
	bytes     int64  // of the packed file, for progress
}

// sourceFor returns the package for a platform. Only packages whose integrity was read from the registry and pinned
// here are fetched: an unpinned one would run whatever a registry sends, inside the process that writes invoices.
func sourceFor(goos, goarch string) (source, bool) {
	switch goos + "/" + goarch {
	case "linux/amd64":
		return source{
			pkg:       "@chdb/lib-linux-x64-gnu",
			integrity: "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
			bytes:     177_817_999,
		}, true
	}
	return source{}, false
}

func errPlatform() error {
	return fmt.Errorf("no checked engine library is known for %s/%s: set %s to a libchdb.so %s of your own, or give the address of a ClickHouse server",
		runtime.GOOS, runtime.GOARCH, LibraryEnv, Version)
}

// Progress is told what Library is doing. stage is "waiting" (another process is fetching), "fetching", "checking" or
// "unpacking"; done and total are bytes. While fetching, done is the size of the file so far, which npm may write
// only at the end, and a call comes every second all the same.
type Progress func(stage string, done, total int64)

// Library returns the path of libchdb: the one that GPUHOUR_LIBCHDB names, else the one in the user's cache directory,
// which the first call fetches with npm and checks (178 MB to fetch, 570 MB kept). With the library in the cache it
// uses neither network nor npm. Of several processes one fetches and the others wait. progress may be nil.
func Library(ctx context.Context, progress Progress) (string, error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		if err := checkFile(path); err != nil {
			return "", fmt.Errorf("find the engine library: %s names a file that cannot be used: %w", LibraryEnv, err)
		}
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the engine library: no cache directory: %w (set HOME or XDG_CACHE_HOME, or %s to a libchdb.so)", err, LibraryEnv)
	}
	dir := filepath.Join(cache, "gpuhour", "libchdb", Version)
	path := filepath.Join(dir, "libchdb.so")
	if err := checkFile(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("find the engine library: %w", err)
	}
	from, ok := sourceFor(runtime.GOOS, runtime.GOARCH)
	if !ok {
		return "", fmt.Errorf("find the engine library: %w", errPlatform())
	}
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	f := fetcher{source: from, dir: dir, path: path, progress: progress, tick: time.Second}
	if err := f.fetch(ctx); err != nil {
		return "", fmt.Errorf("fetch the engine library %s@%s into %s: %w", from.pkg, Version, dir, err)
	}
	return path, nil
}

func checkFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return fmt.Errorf("%s is no file, or an empty one", path)
	}
	return nil
}
