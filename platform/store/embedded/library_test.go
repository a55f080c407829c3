package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// packed is a small npm tarball with its integrity.
func packed(t *testing.T, files map[string]string) (data []byte, integrity string) {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	archive := tar.NewWriter(zipped)
	for name, text := range files {
		ok(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := archive.Write([]byte(text))
		ok(t, err)
	}
	ok(t, archive.Close())
	ok(t, zipped.Close())
	sum := sha512.Sum512(b.Bytes())
	return b.Bytes(), "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// fakeNPM puts an npm into PATH that notes each call in the returned file and then runs script, which finds the
// tarball in $TARBALL and the destination in $4.
func fakeNPM(t *testing.T, tarball []byte, script string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	file := filepath.Join(dir, "tarball")
	ok(t, os.WriteFile(file, tarball, 0o600))
	text := fmt.Sprintf("#!/bin/sh\nTARBALL='%s'\necho \"$@\" >>'%s'\n%s\n", file, calls, script)
	ok(t, os.WriteFile(filepath.Join(dir, "npm"), []byte(text), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return calls
}

const copyTarball = `cp "$TARBALL" "$4/package.tgz"`

func fetcherTo(t *testing.T, integrity string) fetcher {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache", Version)
	return fetcher{
		source: source{pkg: "@chdb/test", integrity: integrity, bytes: 100}, dir: dir, path: filepath.Join(dir, "libchdb.so"),
		progress: func(string, int64, int64) {}, tick: time.Millisecond,
	}
}

// leftovers are the names in the cache, where a failed fetch must leave the lock alone.
func leftovers(t *testing.T, f fetcher) []string {
	t.Helper()
	entries, err := os.ReadDir(f.dir)
	ok(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFetchChecksAndUnpacksOnlyTheLibrary(t *testing.T) {
	tarball, integrity := packed(t, map[string]string{
		"package/libchdb.so": "library", "package/index.js": "x", "../libchdb.so": "evil", "libchdb.so": "evil",
	})
	calls := fakeNPM(t, tarball, copyTarball)
	f := fetcherTo(t, integrity)
	var stages []string
	f.progress = func(stage string, _, total int64) {
		if total <= 0 {
			t.Errorf("%s: total %d", stage, total)
		}
		stages = append(stages, stage)
	}
	ok(t, f.fetch(t.Context()))
	text, err := os.ReadFile(f.path)
	ok(t, err)
	same(t, "library", "library", string(text))
	same(t, "cache", []string{"libchdb.so", "lock"}, leftovers(t, f))
	same(t, "stages", []string{"fetching", "checking", "unpacking"}, slices.Compact(stages))
	args, err := os.ReadFile(calls)
	ok(t, err)
	if !strings.HasPrefix(string(args), "pack @chdb/test@"+Version+" --pack-destination "+f.dir) {
		t.Errorf("npm was called with %s", args)
	}
}

func TestFetchRefusesAnotherIntegrity(t *testing.T) {
	tarball, got := packed(t, map[string]string{"package/libchdb.so": "other"})
	_, pinned := packed(t, map[string]string{"package/libchdb.so": "library"})
	fakeNPM(t, tarball, copyTarball)
	f := fetcherTo(t, pinned)
	contains(t, f.fetch(t.Context()), "not the pinned one", got, pinned)
	same(t, "cache", []string{"lock"}, leftovers(t, f))
}

func TestFetchFailures(t *testing.T) {
	tarball, integrity := packed(t, map[string]string{"package/index.js": "x"})
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"npm fails":            {"echo npm error code E404 >&2; exit 1", []string{"npm pack", "exit status 1", "E404", LibraryEnv, "address of a ClickHouse server"}},
		"npm writes nothing":   {"echo odd", []string{"npm pack wrote no file", "odd"}},
		"no library in it":     {copyTarball, []string{"holds no package/libchdb.so"}},
		"the tarball is wrong": {`echo junk >"$4/package.tgz"`, []string{"not the pinned one"}},
	} {
		t.Run(name, func(t *testing.T) {
			fakeNPM(t, tarball, c.script)
			f := fetcherTo(t, integrity)
			contains(t, f.fetch(t.Context()), c.want...)
			same(t, "cache", []string{"lock"}, leftovers(t, f))
		})
	}
}

func TestFetchWithoutNPMSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	contains(t, fetcherTo(t, "sha512-").fetch(t.Context()), "npm is needed", "install Node.js", LibraryEnv, "address of a ClickHouse server")
}

func TestFetchStopsWithTheContext(t *testing.T) {
	fakeNPM(t, nil, "exec tail -f /dev/null") // an npm that never ends
	f := fetcherTo(t, "sha512-")
	ctx, cancel := context.WithCancel(t.Context())
	f.progress = func(string, int64, int64) { cancel() }
	if err := f.fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	same(t, "cache", []string{"lock"}, leftovers(t, f))
}

func TestOneFetchesAndTheOthersWait(t *testing.T) {
	tarball, integrity := packed(t, map[string]string{"package/libchdb.so": "library"})
	f := fetcherTo(t, integrity)
	gate := filepath.Join(t.TempDir(), "gate")
	ok(t, syscall.Mkfifo(gate, 0o600))
	calls := fakeNPM(t, tarball, "cat '"+gate+"' >/dev/null\n"+copyTarball)
	const fetchers = 4
	waiting := make(chan struct{}, fetchers)
	var wg sync.WaitGroup
	for range fetchers {
		mine := f
		note := sync.OnceFunc(func() { waiting <- struct{}{} })
		mine.progress = func(stage string, _, _ int64) {
			if stage == "waiting" {
				note()
			}
		}
		wg.Go(func() {
			if err := mine.fetch(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	for range fetchers - 1 {
		<-waiting
	}
	ok(t, os.WriteFile(gate, []byte("go"), 0o600)) // opens only when npm reads it
	wg.Wait()
	text, err := os.ReadFile(calls)
	ok(t, err)
	same(t, "calls of npm", 1, strings.Count(string(text), "\n"))
	same(t, "cache", []string{"libchdb.so", "lock"}, leftovers(t, f))
}

func TestLibraryIsFoundWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(LibraryEnv, "")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	cache, err := os.UserCacheDir()
	ok(t, err)
	want := filepath.Join(cache, "gpuhour", "libchdb", Version, "libchdb.so")
	ok(t, os.MkdirAll(filepath.Dir(want), 0o700))
	ok(t, os.WriteFile(want, []byte("library"), 0o600))
	got, err := Library(t.Context(), nil)
	ok(t, err)
	same(t, "path in the cache", want, got)

	own := filepath.Join(home, "own.so")
	t.Setenv(LibraryEnv, own)
	_, err = Library(t.Context(), nil)
	contains(t, err, LibraryEnv, own, "no such file")
	ok(t, os.WriteFile(own, nil, 0o600))
	_, err = Library(t.Context(), nil)
	contains(t, err, own, "an empty one")
	ok(t, os.WriteFile(own, []byte("library"), 0o600))
	got, err = Library(t.Context(), nil)
	ok(t, err)
	same(t, "path from the environment", own, got)
}

func TestLibrarySaysWhatItsCacheLacks(t *testing.T) {
	t.Setenv(LibraryEnv, "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	_, err := Library(t.Context(), nil)
	contains(t, err, "set HOME or XDG_CACHE_HOME", LibraryEnv)

	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("HOME", file)
	_, err = Library(t.Context(), nil)
	contains(t, err, file, "not a directory")

	contains(t, cacheError(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), "no space left", "about 1 GB", LibraryEnv)
	contains(t, cacheError(&os.PathError{Op: "mkdir", Path: "x", Err: syscall.EACCES}), "permission denied", "XDG_CACHE_HOME", LibraryEnv)
}

func TestPlatforms(t *testing.T) {
	from, known := sourceFor("linux", "amd64")
	if !known || !strings.HasPrefix(from.integrity, "sha512-") || from.bytes == 0 {
		t.Errorf("linux/amd64: %v %+v", known, from)
	}
	for _, platform := range []string{"windows/amd64", "linux/riscv64", "freebsd/amd64"} {
		goos, goarch, _ := strings.Cut(platform, "/")
		if _, known := sourceFor(goos, goarch); known {
			t.Errorf("%s has a package", platform)
		}
	}
	contains(t, errPlatform(), runtime.GOOS+"/"+runtime.GOARCH, LibraryEnv, "address of a ClickHouse server")
}
