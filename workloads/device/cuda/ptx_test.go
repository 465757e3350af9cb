package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// TestPTXIsFresh compares every PTX file here with the sources it says it was
// made from, for machines that have no clang to make it again.
func TestPTXIsFresh(t *testing.T) {
	sources, err := filepath.Glob("*.cu")
	ok(t, err)
	for _, source := range sources {
		name := strings.TrimSuffix(source, ".cu") + ".ptx.zst"
		packed, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v; run make kernels", err)
			continue
		}
		ptx, err := ptx.Text(&device.Kernel{Name: name, PTX: string(packed)})
		ok(t, err)
		seen := false
		for line := range strings.Lines(ptx) {
			f := strings.Fields(line)
			if len(f) != 4 || f[1] != "sha256" {
				continue
			}
			text, err := os.ReadFile(f[3])
			ok(t, err)
			sum := sha256.Sum256(text)
			if hex.EncodeToString(sum[:]) != f[2] {
				t.Errorf("%s was made from another %s; run make kernels", name, f[3])
			}
			seen = seen || f[3] == source
		}
		if !seen {
			t.Errorf("%s does not say that it was made from %s; run make kernels", name, source)
		}
	}
	if len(sources) < 5 {
		t.Errorf("only %v found", sources)
	}
}
