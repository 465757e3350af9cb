package ptx_test

import (
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// PTX is text, or text that zstd compressed; damaged code is refused by name.
func TestText(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := string(z.EncodeAll([]byte(".version 6.3"), nil))
	for _, code := range []string{".version 6.3", packed} {
		if text, err := ptx.Text(&device.Kernel{PTX: code}); err != nil || text != ".version 6.3" {
			t.Errorf("%q: %q, %v", code, text, err)
		}
	}
	k := &device.Kernel{Name: "k", PTX: packed} // whoever asks again gets the same text
	if n := testing.AllocsPerRun(10, func() { _, _ = ptx.Text(k) }); n > 1 {
		t.Errorf("%v allocations: the code is unpacked again", n)
	}
	if _, err := ptx.Text(&device.Kernel{Name: "k", PTX: packed[:8]}); err == nil || !strings.Contains(err.Error(), "kernel k") {
		t.Errorf("%v", err)
	}
}
