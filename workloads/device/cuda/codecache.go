package cuda

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// CodeCache is the folder in which the driver keeps machine code compiled from PTX for later processes.
type CodeCache struct {
	Path  string // "" if the driver has no folder
	Bytes int64  // of all files
	Files int
	// Err gives the reason why the driver caches no code, with the fix; nil if it does.
	Err error
}

// leastCodeCache is the smallest usable CUDA_CACHE_MAXSIZE in bytes. The machine code of gpuprof's kernels takes about
// 2 MB, and other programs use the folder too.
const leastCodeCache = 8 << 20

// FindCodeCache finds the driver's cache by the rules of the CUDA programming guide: CUDA_CACHE_DISABLE,
// CUDA_CACHE_MAXSIZE and CUDA_CACHE_PATH, then the user's folder.
func FindCodeCache() CodeCache {
	c := CodeCache{Path: codeCachePath(os.Getenv, runtime.GOOS)}
	switch disabled, size := os.Getenv("CUDA_CACHE_DISABLE"), os.Getenv("CUDA_CACHE_MAXSIZE"); {
	case disabled != "" && disabled != "0":
		c.Err = newCacheError("CUDA_CACHE_DISABLE=%s switches the driver's cache off", disabled).WithFix("unset CUDA_CACHE_DISABLE")
		return c
	case tooSmall(size):
		c.Err = newCacheError("CUDA_CACHE_MAXSIZE=%s leaves no room for the kernels", size).WithFix("unset it, or give at least %d", leastCodeCache)
		return c
	case c.Path == "":
		c.Err = newCacheError("this user has no home folder").WithFix("set CUDA_CACHE_PATH to a folder that stays")
		return c
	}
	c.Files, c.Bytes = sizeOf(c.Path)
	if !writableFolder(c.Path) {
		c.Err = newCacheError("%s cannot be written", c.Path).WithFix("set CUDA_CACHE_PATH to a folder that can be written and stays")
	}
	return c
}

func newCacheError(format string, args ...any) *gpuprof.Error {
	return gpuprof.Errorf(gpuprof.ErrDevice, "keeping compiled kernels: "+format+", so each process compiles them again", args...)
}

// codeCachePath returns the driver's cache folder on a system, "" if it has none.
func codeCachePath(getenv func(string) string, system string) string {
	if p := getenv("CUDA_CACHE_PATH"); p != "" {
		return p
	}
	if system == "windows" {
		if p := getenv("APPDATA"); p != "" {
			return filepath.Join(p, "NVIDIA", "ComputeCache")
		}
		return ""
	}
	if p := getenv("HOME"); p != "" {
		return filepath.Join(p, ".nv", "ComputeCache")
	}
	return ""
}

// tooSmall reports whether a size in bytes is below leastCodeCache. Like the driver, it ignores other text.
func tooSmall(size string) bool {
	n, err := strconv.ParseInt(size, 10, 64)
	return err == nil && n < leastCodeCache
}

func sizeOf(folder string) (files int, bytes int64) {
	// Unreadable files count as 0 bytes: the figure is for display only.
	_ = fs.WalkDir(outside.Dir(folder), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return files, bytes
}

// writableFolder reports whether a file can be created in folder or, failing that, its nearest existing parent.
func writableFolder(folder string) bool {
	for {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() {
			return false
		}
		if err == nil {
			break
		}
		above := filepath.Dir(folder)
		if !os.IsNotExist(err) || above == folder {
			return false
		}
		folder = above
	}
	owner.Sweep(folder)
	f, err := owner.CreateTemp(folder, "")
	if err != nil {
		return false
	}
	_ = f.Close()
	return os.Remove(f.Name()) == nil
}

// LoadTime returns how many modules the driver has loaded on this device, for how many of them gpuprof carried machine
// code, and how long all loads took. The driver compiled the other modules from PTX or read them from its cache.
func (d *Device) LoadTime() (modules, carried int, took time.Duration) {
	return len(d.modules), d.carried, d.loading
}
