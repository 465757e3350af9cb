//go:build linux && (amd64 || arm64) && !nodlopen

package nvml

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// asLibrary makes the test program open the library of that path, do everything
// and print what came of it: a call that slips past the gate ends the process,
// so it has to be one of its own.
const asLibrary = "GPUPROF_TEST_NVML"

func TestMain(m *testing.M) {
	if path := os.Getenv(asLibrary); path != "" {
		everything(path)
		os.Exit(0)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch()) // what is left of it is in the system's folder for such
	os.Exit(code)
}

func everything(path string) {
	l, err := openPath(path)
	fmt.Fprintln(os.Stdout, "error:", err)
	for _, lib := range []*Library{l, nil} {
		list := lib.Devices()
		fmt.Fprintln(os.Stdout, "devices:", len(list))
		for _, d := range list {
			for _, line := range d.Examine() {
				fmt.Fprintln(os.Stdout, line)
			}
		}
		d, err := lib.Device("0")
		if err != nil {
			d = new(Device)
		}
		d.Start(context.Background(), time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		fmt.Fprintln(os.Stdout, "tracks:", len(d.Stop()))
		_, power := d.PowerW()
		_, energy := d.EnergyJ()
		_, _, throttled := d.ThrottledS()
		_, users := d.Foreign()
		fmt.Fprintln(os.Stdout, "known:", power, energy, throttled, users, len(d.Facts()))
		fmt.Fprintln(os.Stdout, "closed:", lib.Close())
		d.PowerW()
		d.ClockHz()
	}
	fmt.Fprintln(os.Stdout, "alive")
}

// compile builds a library from C.
func compile(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	c, so := filepath.Join(dir, "nvml.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cc("-o", so, c); err != nil {
		t.Fatal(err)
	}
	return so
}

// A driver of long ago: it starts, counts and names, and has nothing else.
const oldDriver = `
int nvmlInit(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex(unsigned i, void **d) { *d = (void *)1; return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { __builtin_memcpy(s, "GPU-0123abcd", 13); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { __builtin_memcpy(s, "Old", 4); return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 50000; return 0; }
`

func TestRealLibraries(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	notALibrary := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(notALibrary, []byte("no ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		says []string
	}{
		"absent":           {"libnvidia-ml-absent.so.1", []string{"libnvidia-ml-absent.so.1 was not found; install", "devices: 0", "alive"}},
		"absent path":      {"/nowhere/libnvidia-ml.so.1", []string{"was not found", "alive"}},
		"no library":       {notALibrary, []string{"reinstall the NVIDIA driver", "alive"}},
		"without start":    {compile(t, "int nvmlShutdown(void) { return 0; }"), []string{"no function nvmlInit_v2", "alive"}},
		"start fails":      {compile(t, "int nvmlInit_v2(void) { return 9; } int nvmlShutdown(void) { return 0; }"), []string{"nvidia-modprobe", "devices: 0", "alive"}},
		"not permitted":    {compile(t, "int nvmlInit_v2(void) { return 4; } int nvmlShutdown(void) { return 0; }"), []string{"/dev/nvidiactl", "alive"}},
		"other version":    {compile(t, "int nvmlInit_v2(void) { return 18; } int nvmlShutdown(void) { return 0; }"), []string{"different versions", "alive"}},
		"nothing but init": {compile(t, "int nvmlInit_v2(void) { return 0; } int nvmlShutdown(void) { return 0; }"), []string{"counting GPUs: not supported", "alive"}},
		"old driver":       {compile(t, oldDriver), []string{"error: <nil>", "devices: 1", "Old, GPU-0123abcd", "tracks: 1", "known: true false false false", "closed: <nil>", "alive"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), asLibrary+"="+c.path, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the process died: %v\n%s", err, out)
			}
			for _, s := range c.says {
				if !bytes.Contains(out, []byte(s)) {
					t.Errorf("it does not say %q:\n%s", s, out)
				}
			}
		})
	}
}
