package bisect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// artifacts caches build outputs (--artifact). The key of an entry is made of the commit's git tree, the current
// folder, the build command, the artifact's path and the output of the --toolchain command.
type artifacts struct {
	run       judge.Children
	how       buildFlags
	dir       string
	most      int64  // limit of the cache's size, bytes
	toolchain string // output of the --toolchain command; "" without one
}

func openArtifacts(run judge.Children, how buildFlags) (*artifacts, error) {
	cache, err := cli.CacheDir()
	if err != nil {
		return nil, err
	}
	if filepath.IsAbs(how.Artifact) || !filepath.IsLocal(how.Artifact) {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --artifact %s: it is not inside the checkout", how.Artifact).WithFix("give the path of what the build leaves, from where it runs")
	}
	a := &artifacts{run: run, how: how, dir: filepath.Join(cache, "builds"), most: how.Cache.Bytes()}
	if how.Toolchain != "" {
		out, err := run.Capture("", "sh", "-c", how.Toolchain)
		if err != nil {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "asking for the toolchain with %q: %w", how.Toolchain, err).WithFix("correct --toolchain")
		}
		a.toolchain = string(out)
	}
	return a, nil
}

func (a *artifacts) entryFolder(r *repository, id string) (string, error) {
	tree, err := a.run.Git(r.top, "rev-parse", "--verify", "--quiet", id+"^{tree}")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{strings.TrimSpace(string(tree)), r.prefix, a.how.Build, a.how.Artifact, a.toolchain}, "\x00")))
	return filepath.Join(a.dir, hex.EncodeToString(sum[:16])), nil
}

// restoreArtifact copies a commit's cached artifact into a checkout. It returns false if there is none or the copy
// fails.
func (a *artifacts) restoreArtifact(r *repository, id, dir string) (bool, error) {
	entry, err := a.entryFolder(r, id)
	if err != nil || !pathExists(entry) {
		return false, err
	}
	to := filepath.Join(dir, a.how.Artifact)
	err = errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o777))
	if err == nil {
		err = copyAll(filepath.Join(entry, "artifact"), to)
	}
	if err != nil {
		_ = os.RemoveAll(to) // a partial copy; the artifact is built instead
		return false, nil
	}
	now := time.Now()
	_ = os.Chtimes(entry, now, now) // the time of the last use, for evict
	return true, nil
}

// storeArtifact copies a build's output into the cache, and evicts the least recently used entries.
func (a *artifacts) storeArtifact(r *repository, id, dir string) error {
	from := filepath.Join(dir, a.how.Artifact)
	if !pathExists(from) {
		return gpuprof.Errorf(gpuprof.ErrInput, "building %.7s: the build left no %s", id, a.how.Artifact).WithFix("correct --artifact")
	}
	entry, err := a.entryFolder(r, id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return a.cacheError(err)
	}
	owner.Sweep(a.dir)
	tmp, err := owner.MkdirTemp(a.dir, owner.Prefix)
	if err != nil {
		return a.cacheError(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := copyAll(from, filepath.Join(tmp, "artifact")); err != nil {
		return a.cacheError(err)
	}
	if err := os.Rename(tmp, entry); err != nil && !pathExists(entry) {
		return a.cacheError(err)
	}
	a.evict(filepath.Base(entry))
	return nil
}

func (a *artifacts) cacheError(err error) error {
	const set = "set XDG_CACHE_HOME to a folder that can be written, or leave --artifact out"
	return gpuprof.Unwritable("keeping an artifact in "+a.dir, err, set, set)
}

// evict removes the least recently used entries until the cache fits its limit. It never removes the entry named
// newest.
func (a *artifacts) evict(newest string) {
	type kept struct {
		name string
		used time.Time
		size int64
	}
	var all []kept
	entries, _ := outside.Dir(a.dir).ReadDir(".") // an unreadable entry stays in the cache
	sum := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		k := kept{e.Name(), info.ModTime(), sizeOf(filepath.Join(a.dir, e.Name()))}
		all, sum = append(all, k), sum+k.size
	}
	slices.SortFunc(all, func(x, y kept) int { return x.used.Compare(y.used) })
	for _, k := range all {
		if sum <= a.most {
			return
		}
		if k.name != newest && os.RemoveAll(filepath.Join(a.dir, k.name)) == nil {
			sum -= k.size
		}
	}
}

// sizeOf returns the size of all files in a folder, bytes; it ignores entries that are removed meanwhile.
func sizeOf(dir string) int64 {
	sum := int64(0)
	_ = fs.WalkDir(outside.Dir(dir), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, gone := d.Info(); gone == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// copyAll copies a file, or a folder with its content. It preserves modes and times, and copies symbolic links as
// links.
func copyAll(from, to string) error {
	folder := outside.Dir(from)
	return fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, at := folder.Path(name), filepath.Join(to, filepath.FromSlash(name))
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(at, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, at)
		case info.Mode().IsRegular():
			return copyOne(path, at, info)
		}
		return nil // a pipe or a socket, which is no artifact
	})
}

func copyOne(from, to string, info fs.FileInfo) error {
	in, err := outside.OpenRegular(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime()) // make would rebuild an older file
}
