package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

func TestCodeCachePath(t *testing.T) {
	for _, c := range []struct {
		system, want string
		env          map[string]string
	}{
		{"linux", filepath.FromSlash("/home/u/.nv/ComputeCache"), map[string]string{"HOME": "/home/u"}},
		{"linux", "/scratch/c", map[string]string{"HOME": "/home/u", "CUDA_CACHE_PATH": "/scratch/c"}},
		{"linux", "", nil},
		{"windows", filepath.Join("roaming", "NVIDIA", "ComputeCache"), map[string]string{"APPDATA": "roaming", "HOME": "/home/u"}},
		{"windows", "", map[string]string{"HOME": "/home/u"}},
	} {
		if got := codeCachePath(func(k string) string { return c.env[k] }, c.system); got != c.want {
			t.Errorf("%s with %v: %q, expected %q", c.system, c.env, got, c.want)
		}
	}
}

// What keeps the driver from keeping compiled kernels is said with its fix.
func TestFindCodeCache(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(home, "full")
	if err := os.MkdirAll(filepath.Join(full, "4", "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "4", "f", "cubin"), make([]byte, 1234), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env   map[string]string
		says  string
		bytes int64
	}{
		"not there yet":   {map[string]string{"HOME": home}, "", 0},
		"filled":          {map[string]string{"CUDA_CACHE_PATH": full, "CUDA_CACHE_DISABLE": "0", "CUDA_CACHE_MAXSIZE": "268435456"}, "", 1234},
		"switched off":    {map[string]string{"HOME": home, "CUDA_CACHE_DISABLE": "1"}, "unset CUDA_CACHE_DISABLE", 0},
		"no room":         {map[string]string{"HOME": home, "CUDA_CACHE_MAXSIZE": "1000"}, "leaves no room", 0},
		"not a size":      {map[string]string{"HOME": home, "CUDA_CACHE_MAXSIZE": "lots"}, "", 0},
		"no home":         {map[string]string{}, "set CUDA_CACHE_PATH", 0},
		"a file above it": {map[string]string{"CUDA_CACHE_PATH": filepath.Join(file, "c")}, "cannot be written", 0},
		"a file":          {map[string]string{"CUDA_CACHE_PATH": file}, "cannot be written", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range []string{"HOME", "APPDATA", "CUDA_CACHE_PATH", "CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE"} {
				t.Setenv(k, c.env[k])
			}
			got := FindCodeCache()
			if got.Bytes != c.bytes || (c.says == "") != (got.Err == nil) {
				t.Fatalf("%+v", got)
			}
			if c.says != "" && (!errors.Is(got.Err, gpuprof.ErrDevice) || !strings.Contains(got.Err.Error(), c.says)) {
				t.Errorf("%v; want it to say %q", got.Err, c.says)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".gpuprof-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The time of loading grows with each module, and not with another kernel of the same.
func TestLoadTime(t *testing.T) {
	lib, simulated := cudatest.Driver(t, "")
	d, err := Open(Options{Library: lib, AllowSimulated: simulated})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		kernel  string
		modules int
	}{{"null", 1}, {"flush_write", 2}, {"flush_read", 2}, {"spin", 3}} {
		if _, err := d.loadInstrument(c.kernel); err != nil {
			t.Fatal(err)
		}
		if n, carried, took := d.LoadTime(); n != c.modules || carried != 0 || took <= 0 {
			t.Errorf("after %s: %d modules in %s, expected %d", c.kernel, n, took, c.modules)
		}
	}
}
