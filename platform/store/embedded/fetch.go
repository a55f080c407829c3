package embedded

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fetcher brings one library into the cache. Nothing is at path before it is whole and checked.
type fetcher struct {
	source
	dir      string // of path; its files are private to this user, as they become code of this process
	path     string
	progress Progress
	tick     time.Duration // between two reports, and between two tries for the lock
}

func (f fetcher) fetch(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return cacheError(err)
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if checkFile(f.path) == nil {
		return nil // fetched by the process that held the lock before
	}
	work, err := os.MkdirTemp(f.dir, "fetch-")
	if err != nil {
		return cacheError(err)
	}
	defer os.RemoveAll(work)
	packed, err := f.pack(ctx, work)
	if err != nil {
		return err
	}
	if err := f.check(ctx, packed); err != nil {
		return err
	}
	return f.unpack(ctx, packed, filepath.Join(work, "libchdb.so"))
}

// lock waits for the lock file. The lock is the kernel's, so it goes away with a process that is killed.
func (f fetcher) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, cacheError(err)
	}
	for {
		ok, err := tryLock(file)
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if ok {
			return func() { file.Close() }, nil
		}
		f.progress("waiting", 0, f.bytes)
		select {
		case <-time.After(f.tick):
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for the process that fetches it: %w", ctx.Err())
		}
	}
}

// pack has npm write the packed library into work and returns its path.
func (f fetcher) pack(ctx context.Context, work string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is needed and is not in PATH: %w (install Node.js, which brings npm; or set %s to a libchdb.so; or give the address of a ClickHouse server)", err, LibraryEnv)
	}
	cmd := exec.CommandContext(ctx, npm, "pack", f.pkg+"@"+Version, "--pack-destination", work, "--ignore-scripts", "--loglevel", "error")
	cmd.Dir = work // away from any package.json or .npmrc of the caller's directory
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 5 * time.Second // a child of npm that holds the output open must not hold us
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start npm: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := f.watch(work, done); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("npm pack: %w: %s (check that npm reaches its registry; or set %s to a libchdb.so; or give the address of a ClickHouse server)",
			err, lastLines(output.String()), LibraryEnv)
	}
	packed := packedFile(work)
	if packed == "" {
		return "", fmt.Errorf("npm pack wrote no file: %s", lastLines(output.String()))
	}
	return packed, nil
}

// watch reports progress until npm ends.
func (f fetcher) watch(work string, done <-chan error) error {
	ticker := time.NewTicker(f.tick)
	defer ticker.Stop()
	for {
		var size int64
		if info, err := os.Stat(packedFile(work)); err == nil {
			size = info.Size()
		}
		f.progress("fetching", size, f.bytes)
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
	}
}

// packedFile is the one file npm pack leaves, or "".
func packedFile(work string) string {
	files, _ := filepath.Glob(filepath.Join(work, "*.tgz")) // the pattern is well formed
	if len(files) != 1 {
		return ""
	}
	return files[0]
}

// lastLines keeps what a person needs of npm's output: its end.
func lastLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// check compares the packed file with the pinned sha512 before a byte of it is unpacked.
func (f fetcher) check(ctx context.Context, packed string) error {
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, f.counted(ctx, "checking", file, f.bytes)); err != nil {
		return fmt.Errorf("read %s: %w", packed, err)
	}
	got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil))
	if got != f.integrity {
		return fmt.Errorf("the fetched file is not the pinned one and was thrown away: its integrity is %s, pinned is %s", got, f.integrity)
	}
	return nil
}

// unpack writes the library to temp, on disk for good, and then gives it its name.
func (f fetcher) unpack(ctx context.Context, packed, temp string) error {
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", packed, err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("unpack %s: it holds no package/libchdb.so", packed)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", packed, err)
		}
		if header.Name != "package/libchdb.so" || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeSynced(temp, f.counted(ctx, "unpacking", archive, header.Size)); err != nil {
			return cacheError(err)
		}
		if err := os.Rename(temp, f.path); err != nil {
			return cacheError(err)
		}
		return nil
	}
}

// writeSynced writes and fsyncs, so that after a power loss a file under the final name is whole.
func writeSynced(path string, from io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, from); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Sync(); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// cacheError adds what to do about a cache directory that cannot be written.
func cacheError(err error) error {
	switch {
	case isFull(err):
		return fmt.Errorf("%w (about 1 GB must be free while it is fetched; set XDG_CACHE_HOME to a larger disk, or %s to a libchdb.so)", err, LibraryEnv)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (set XDG_CACHE_HOME to a directory this user can write, or %s to a libchdb.so)", err, LibraryEnv)
	}
	return err
}

// counted reports what is read, every 16 MiB and at the end, and stops reading when ctx ends.
func (f fetcher) counted(ctx context.Context, stage string, r io.Reader, total int64) io.Reader {
	return &countedReader{ctx: ctx, from: r, report: func(done int64) { f.progress(stage, done, total) }}
}

const reportBytes = 16 << 20

type countedReader struct {
	ctx            context.Context
	from           io.Reader
	report         func(done int64)
	done, reported int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	c.done += int64(n)
	if c.done-c.reported >= reportBytes || (err != nil && c.done > c.reported) {
		c.reported = c.done
		c.report(c.done)
	}
	return n, err
}
