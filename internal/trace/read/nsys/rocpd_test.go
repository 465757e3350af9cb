package nsys

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// rocpdScene is a recording of process 7 with two threads on two GPUs.
func rocpdScene() *model.Trace {
	t := &model.Trace{
		Names:   []string{"ProfilerStep#3", "aten::mm", "hipExtModuleLaunchKernel", "Cijk_Ailk_Bljk_SB", "hipMemcpyWithStream", "Memcpy HtoD", "Memcpy DtoH", "Memcpy PtoP", "hipMemcpyAsync"},
		Lanes:   []model.Lane{{Process: 7, Thread: 7}, {Process: 7, Thread: 9}},
		Devices: []model.Device{{ID: 0, Name: "AMD Instinct MI300X", SMs: 304}, {ID: 1, Name: "AMD Instinct MI300X", SMs: 304}},
		Host: []model.Host{
			{Start: 800, End: 6000, Kind: model.Step, Name: 0},
			{Start: 900, End: 1300, Kind: model.Op, Name: 1, Seq: 5},
			{Start: 1000, End: 1100, Kind: model.API, Name: 2, Corr: 21},
			{Start: 1400, End: 2100, Kind: model.API, Name: 4, Corr: 22},
			{Start: 1500, End: 1550, Kind: model.API, Name: 8, Corr: 23, Lane: 1},
			{Start: 1600, End: 1650, Kind: model.API, Name: 8, Corr: 24, Lane: 1},
		},
		GPU: []model.GPU{
			{Start: 1200, End: 1390, Kind: model.Kernel, Name: 3, Corr: 21, Process: 7, Stream: 2, Blocks: 40, Threads: 256},
			{Start: 1450, End: 1500, Kind: model.Memcpy, Name: 6, Corr: 22, Process: 7, Stream: 2, Bytes: 4, Dir: model.D2H},
			{Start: 1700, End: 1800, Kind: model.Memcpy, Name: 5, Corr: 23, Process: 7, Stream: 3, Bytes: 4096, Dir: model.H2D, Device: 1},
			{Start: 1900, End: 1990, Kind: model.Memcpy, Name: 7, Corr: 24, Process: 7, Stream: 3, Bytes: 64, Dir: model.P2P, Device: 1},
		},
	}
	t.Finish()
	return t
}

// rocpdFile writes recordings as rocprofv3 does, one set of tables each, and changes
// them by further statements. Returns the path.
func rocpdFile(t testing.TB, spine bool, recordings []*model.Trace, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "7_results.db")
	for i, tr := range recordings {
		if err := tracetest.Rocpd(path, tr, fmt.Sprintf("_0000%d_ab", i), spine); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRocpdLayouts(t *testing.T) {
	want := rocpdScene()
	for _, spine := range []bool{false, true} {
		path := rocpdFile(t, spine, []*model.Trace{want})
		got, err := Read(t.Context(), path, path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(hosts(want), hosts(got)); d != "" {
			t.Errorf("spine %v: host events (-want +got):\n%s", spine, d)
		}
		if d := cmp.Diff(gpus(want), gpus(got)); d != "" {
			t.Errorf("spine %v: device operations (-want +got):\n%s", spine, d)
		}
		if d := cmp.Diff(want.Devices, got.Devices); d != "" {
			t.Errorf("spine %v: devices (-want +got):\n%s", spine, d)
		}
		if got.GPU[0].Stream != 2 || got.GPU[2].Stream != 3 {
			t.Errorf("spine %v: streams %d and %d", spine, got.GPU[0].Stream, got.GPU[2].Stream)
		}
		if got.Format != model.Rocpd || got.Events != len(want.Host)+len(want.GPU) || len(got.Warnings) > 0 || got.Truncated {
			t.Errorf("spine %v: format %s, %d events, truncated %v, %v", spine, got.Format, got.Events, got.Truncated, got.Warnings)
		}
	}
}

// Two processes of one merged database have the same ids and calls of their own.
func TestRocpdMerged(t *testing.T) {
	second := rocpdScene()
	for i := range second.Lanes {
		second.Lanes[i].Process = 8
	}
	for i := range second.GPU {
		second.GPU[i].Process = 8
	}
	both := []*model.Trace{rocpdScene(), second}
	path := rocpdFile(t, false, both)
	got, err := Read(t.Context(), path, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	per := map[int32]int{}
	for i := range got.GPU {
		g := &got.GPU[i]
		if g.Launch < 0 || got.Lanes[got.Host[g.Launch].Lane].Process != g.Process {
			t.Errorf("operation %d of process %d is linked to call %d", i, g.Process, g.Launch)
		}
		per[g.Process]++
	}
	if per[7] != 4 || per[8] != 4 || len(got.Devices) != 2 {
		t.Errorf("operations by process %v, devices %v", per, got.Devices)
	}
	path = rocpdFile(t, false, both, `UPDATE "rocpd_info_node_00001_ab" SET machine_id = 'other'`)
	if _, err := Read(t.Context(), path, path, 0); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "several machines") {
		t.Errorf("two machines: %v", err)
	}
}

// Without the streams of HIP kernels are told apart by their queues.
func TestRocpdQueues(t *testing.T) {
	path := rocpdFile(t, false, []*model.Trace{rocpdScene()}, `UPDATE "rocpd_kernel_dispatch_00000_ab" SET stream_id = 0, queue_id = 5`)
	got, err := Read(t.Context(), path, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got.GPU[0].Stream != 5 {
		t.Errorf("stream %d, want the queue's number 5", got.GPU[0].Stream)
	}
}

func readsSoundly(t *testing.T, path, what string) {
	t.Helper()
	tr, err := Read(t.Context(), path, path, 0)
	if err == nil {
		sound(t, tr)
	} else if !errors.Is(err, gpuprof.ErrInput) || strings.Contains(err.Error(), "Nsight") {
		t.Errorf("%s: %v", what, err)
	}
}

// Warnings about a database of ROCm name HIP, ROCTx and rocprofv3, and nothing of NVIDIA.
func TestRocpdWarnings(t *testing.T) {
	path := rocpdFile(t, false, []*model.Trace{rocpdScene()}, `DELETE FROM "rocpd_region_00000_ab"`)
	got, err := Read(t.Context(), path, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c := codes(got); !slices.Equal(c, []string{"no-launches", "no-nvtx"}) {
		t.Errorf("warnings %v", c)
	}
	for _, w := range got.Warnings {
		if strings.Contains(w.Text+w.Fix, "nsys") || strings.Contains(w.Text, "CUDA") || strings.Contains(w.Text, "NVTX") {
			t.Errorf("%s: %s; %s", w.Code, w.Text, w.Fix)
		}
	}
}
