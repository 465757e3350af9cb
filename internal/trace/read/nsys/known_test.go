package nsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// recording is a file of the folder of real recordings that GPUPROF_TRACES
// names, or that lies beside the checkout; they are too large to be part of it.
func recording(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("GPUPROF_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "..", "shared", "traces")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("KNOWN ANSWERS NOT CHECKED: no recording %s; set GPUPROF_TRACES to the folder that holds it", path) //nolint:forbidigo // real recordings are not part of the repository
	}
	return path
}

// TestKnown compares what the reader finds with what SQL on the same files
// gives (two ranks on two GPUs, correlation ids that repeat between them).
func TestKnown(t *testing.T) {
	for _, want := range []struct {
		file                                      string
		kernels, linked, copies, pageable, fills  int
		calls, ranges, overhead, events, byIDOnly int
	}{
		{"mfu_2gpu_before.sqlite", 4010, 3986, 1020, 34, 269, 7466, 19118, 6, 31889, 4280},
		{"mfu_2gpu_after.sqlite", 3587, 3577, 904, 32, 242, 6682, 17113, 6, 28534, 3864},
	} {
		t.Run(want.file, func(t *testing.T) {
			tr, err := Read(t.Context(), recording(t, want.file), recording(t, want.file), 0)
			if err != nil {
				t.Fatal(err)
			}
			kinds, calls := map[model.Kind]int{}, map[int64]int{}
			for i := range tr.Host {
				kinds[tr.Host[i].Kind]++
				if tr.Host[i].Kind == model.API {
					calls[tr.Host[i].Corr]++
				}
			}
			got := want
			got.linked, got.pageable, got.byIDOnly = 0, 0, 0
			for i := range tr.GPU {
				g := &tr.GPU[i]
				kinds[g.Kind]++
				if g.Kind == model.Kernel {
					got.byIDOnly += calls[g.Corr]
					if g.Launch >= 0 {
						got.linked++
						if l := tr.Host[g.Launch]; l.Corr != g.Corr || tr.Lanes[l.Lane].Process != g.Process {
							t.Errorf("kernel %d of process %d is linked to call %d", g.Corr, g.Process, l.Corr)
						}
					}
				}
				if g.Memory == model.Pageable {
					got.pageable++
				}
			}
			got.kernels, got.copies, got.fills = kinds[model.Kernel], kinds[model.Memcpy], kinds[model.Memset]
			got.calls, got.ranges, got.overhead = kinds[model.API], kinds[model.Op]+kinds[model.Annotation], kinds[model.Overhead]
			got.events = tr.Events
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if len(tr.Devices) != 2 || tr.Devices[0].ID != 0 || tr.Devices[1].ID != 1 || tr.Truncated || len(tr.Warnings) > 0 || !tr.Inflated {
				t.Errorf("devices %+v, truncated %v, warnings %v, inflated %v", tr.Devices, tr.Truncated, tr.Warnings, tr.Inflated)
			}
			sound(t, tr)
		})
	}
}
