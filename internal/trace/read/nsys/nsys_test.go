package nsys

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func read(t *testing.T, statements ...string) *model.Trace {
	t.Helper()
	tr, err := Read(t.Context(), build(t, statements...), build(t, statements...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// codes are the warnings of a trace.
func codes(tr *model.Trace) []string {
	var out []string
	for _, w := range tr.Warnings {
		out = append(out, w.Code)
	}
	slices.Sort(out)
	return out
}

// hostRow and gpuRow are events with their names, for comparing.
type hostRow struct {
	Start, End, Corr, Seq int64
	Name                  string
	Kind                  model.Kind
	Process               int32
	Thread                int64
}

type gpuRow struct {
	Start, End, Bytes, Blocks int64
	Threads                   int32
	Name, Launch              string
	Kind                      model.Kind
	Dir                       model.Direction
	Memory                    model.HostMemory
	Graph                     bool
	Device                    int
}

func hosts(tr *model.Trace) []hostRow {
	var out []hostRow
	for i := range tr.Host {
		h := &tr.Host[i]
		out = append(out, hostRow{h.Start, h.End, h.Corr, h.Seq, tr.Name(h.Name), h.Kind, tr.Lanes[h.Lane].Process, tr.Lanes[h.Lane].Thread})
	}
	return out
}

func gpus(tr *model.Trace) []gpuRow {
	var out []gpuRow
	for i := range tr.GPU {
		g := &tr.GPU[i]
		launch := ""
		if g.Launch >= 0 {
			launch = tr.Name(tr.Host[g.Launch].Name)
		}
		out = append(out, gpuRow{g.Start, g.End, g.Bytes, g.Blocks, g.Threads, tr.Name(g.Name), launch, g.Kind, g.Dir, g.Memory, g.Graph, tr.Devices[g.Device].ID})
	}
	return out
}

// TestSchemas reads the same made-up recording as three versions write it.
func TestSchemas(t *testing.T) {
	wantHosts := []hostRow{
		{800, 6000, 0, 0, "ProfilerStep#7", model.Step, 100, 100},
		{900, 990, 10, 0, "cudaMemcpyAsync", model.API, 100, 100},
		{1550, 1750, 0, 5, "aten::mm", model.Op, 100, 100},
		{1600, 1700, 11, 0, "cudaLaunchKernel", model.API, 100, 100},
		{3100, 3650, 12, 0, "cudaMemcpyAsync", model.API, 100, 100},
		{3700, 3750, 13, 0, "cudaMemsetAsync", model.API, 100, 100},
		{4200, 4300, 14, 0, "cudaGraphLaunch", model.API, 100, 100},
	}
	for name, s := range map[string][]string{"2021": schema2021(), "2023": schema2023(), "2025": schema2025()} {
		t.Run(name, func(t *testing.T) {
			tr := read(t, s...)
			if d := cmp.Diff(wantHosts, hosts(tr)); d != "" {
				t.Errorf("host events (-want +got):\n%s", d)
			}
			fill := "Memset (Device)"
			if name == "2021" {
				fill = "Memset" // that version does not say which memory
			}
			wantGPU := []gpuRow{
				{1000, 1500, 4096, 0, 0, "Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", model.Memcpy, model.H2D, model.Pageable, false, 0},
				{2000, 3000, 0, 120, 64, "void gemm<float>(float*)", "cudaLaunchKernel", model.Kernel, model.NoCopy, model.UnknownMemory, false, 0},
				{3500, 3600, 8, 0, 0, "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", model.Memcpy, model.D2H, model.Pinned, false, 0},
				{4000, 4100, 64, 0, 0, fill, "cudaMemsetAsync", model.Memset, model.NoCopy, model.UnknownMemory, false, 0},
				{5000, 5500, 0, 1, 64, "void gemm<float>(float*)", "cudaGraphLaunch", model.Kernel, model.NoCopy, model.UnknownMemory, true, 0},
			}
			if d := cmp.Diff(wantGPU, gpus(tr)); d != "" {
				t.Errorf("device operations (-want +got):\n%s", d)
			}
			device := model.Device{ID: 0, Name: "Made-up GPU", Major: 8, Minor: 0, SMs: 108, TotalBytes: 42e9, PeakBytesPerS: 1555e9}
			if d := cmp.Diff([]model.Device{device}, tr.Devices); d != "" {
				t.Errorf("devices (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]model.Lane{{Process: 100, Thread: 100, Name: "python3"}}, tr.Lanes); d != "" {
				t.Errorf("lanes (-want +got):\n%s", d)
			}
			if len(tr.Warnings) > 0 || tr.Truncated || tr.Events != 12 || tr.Format != model.Nsys || tr.Rank != -1 {
				t.Errorf("warnings %v, truncated %v, %d events, format %s, rank %d", tr.Warnings, tr.Truncated, tr.Events, tr.Format, tr.Rank)
			}
		})
	}
}

// TestParts leaves tables and columns out.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           []string
		host, gpu, links int
		warnings         []string
	}{
		{"kernels only", []string{"DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME", "DROP TABLE NVTX_EVENTS"}, 0, 5, 0, []string{"no-launches", "no-nvtx"}},
		{"no ranges", []string{"DROP TABLE NVTX_EVENTS"}, 5, 5, 5, []string{"no-nvtx"}},
		{"no device", []string{"DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY", "DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET"}, 7, 0, 0, nil},
		{"no strings", []string{"DROP TABLE StringIds"}, 7, 5, 5, []string{"missing-names"}},
		{"no correlation column", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId"}, 7, 5, 3, nil},
		{"no process column, one process", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid"}, 7, 5, 5, nil},
		{"no process column, two processes that share an id", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid",
			"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start,end,eventClass,globalTid,correlationId,nameId,returnValue) VALUES (1500,1600,0," + tid200 + ",11,3,0)"}, 8, 5, 4, []string{"no-process"}},
		{"no end column", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET DROP COLUMN end"}, 7, 4, 4, []string{"unknown-schema"}},
		{"no event type", []string{"DELETE FROM NVTX_EVENTS WHERE eventType=75", "ALTER TABLE NVTX_EVENTS DROP COLUMN eventType"}, 7, 5, 5, nil},
		{"no text column", []string{"ALTER TABLE NVTX_EVENTS DROP COLUMN text"}, 7, 5, 5, nil},
		{"failed call", []string{"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 2 WHERE correlationId = 13", "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 600 WHERE correlationId = 12"}, 7, 5, 5, []string{"failed-calls"}},
		{"failed launches", []string{"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 222 WHERE nameId IN (SELECT id FROM StringIds WHERE value LIKE 'cudaLaunchKernel%')", "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL"}, 7, 3, 3, []string{"failed-calls", "failed-launches"}},
		{"backwards", []string{"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1 WHERE correlationId = 11"}, 7, 5, 5, nil},
		{"text where numbers belong", []string{"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'wide', streamId = 'main', deviceId = x'00ff'", "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'early' WHERE correlationId = 10"}, 7, 4, 4, []string{"bad-times"}},
		{"names in place", []string{"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 'my kernel'"}, 7, 5, 5, nil},
		{"times no clock shows", []string{"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775807 WHERE correlationId = 11"}, 7, 4, 4, []string{"bad-times"}},
		{"tables with a version", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V3", "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME TO CUPTI_ACTIVITY_KIND_RUNTIME_V2",
			"ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V2", "ALTER TABLE StringIds RENAME TO StringIds_V2"}, 7, 5, 5, nil},
		{"two rows for a call", []string{"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start,end,eventClass,globalTid,correlationId,nameId,returnValue) " +
			"SELECT start+1,end-1,0,globalTid,correlationId,5-nameId%2,0 FROM CUPTI_ACTIVITY_KIND_RUNTIME"}, 7, 5, 5, nil},
		{"driver table", []string{"ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME TO CUPTI_ACTIVITY_KIND_DRIVER"}, 7, 5, 5, nil},
		{"nsys' own warnings", []string{"CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER)",
			"INSERT INTO DIAGNOSTIC_EVENT VALUES (1,1,1,'Profiling has started.',0), (2,1,2,'Clock may be off',0), (3,1,2,'Clock may be off',0), (4,1,1,'12 CUPTI events were dropped',0)"}, 7, 5, 5, []string{"dropped-events", "nsys"}},
		{"graph as a whole", []string{"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER)",
			"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 14", "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (5000,5500,0,7,14," + pid100 + ",3)"}, 7, 5, 5, []string{"graphs-as-a-whole"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := read(t, append(schema2025(), c.change...)...)
			linked := 0
			for i := range tr.GPU {
				if tr.GPU[i].Launch >= 0 {
					linked++
				}
				if tr.GPU[i].End < tr.GPU[i].Start {
					t.Errorf("operation %d ends before it starts", i)
				}
			}
			if len(tr.Host) != c.host || len(tr.GPU) != c.gpu || linked != c.links {
				t.Errorf("got %d host events, %d device operations, %d linked; want %d, %d, %d", len(tr.Host), len(tr.GPU), linked, c.host, c.gpu, c.links)
			}
			if d := cmp.Diff(c.warnings, codes(tr)); d != "" {
				t.Errorf("warnings (-want +got):\n%s\n%v", d, tr.Warnings)
			}
		})
	}
}

// TestFailedLaunches: a kernel that failed is named by the first call that returned its error, whatever else failed;
// failed launches without one have the error of the launches, not of other calls, and no error if theirs differ.
func TestFailedLaunches(t *testing.T) {
	const launches, fill = "nameId IN (SELECT id FROM StringIds WHERE value LIKE 'cudaLaunchKernel%')", "correlationId = 13"
	set := func(code, where string) string {
		return "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = " + code + " WHERE " + where
	}
	call := func(start, name, code string) string {
		return "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start,end,eventClass,globalTid,correlationId,nameId,returnValue) VALUES (" + start + "," + start + "+50,0," + tid100 + ",99," + name + "," + code + ")"
	}
	const launch, copied, filled = "3", "4", "9" // ids of names
	for name, c := range map[string]struct {
		change []string
		code   string
		want   string
	}{
		"another call fails with another error": {[]string{set("2", "NOT "+launches), set("222", launches)}, "failed-launches", "1 launch of a kernel returned an error (222 cudaErrorUnsupportedPtxVersion), and its kernel did not run"},
		"an error without a known cause":        {[]string{set("4", launches)}, "failed-launches", "1 launch of a kernel returned an error (4), and its kernel did not run"},
		"too many resources":                    {[]string{set("701", launches)}, "failed-launches", "1 launch of a kernel returned an error (701 cudaErrorLaunchOutOfResources), and its kernel did not run"},
		"several errors":                        {[]string{set("222", launches), call("6000", launch, "98")}, "failed-launches", "2 launches of kernels returned an error, and their kernels did not run"},
		"a kernel that failed":                  {[]string{set("700", fill)}, "failed-kernel", "a kernel failed while it ran: cudaMemsetAsync returned its error (700 cudaErrorIllegalAddress)"},
		"a launch returned its error":           {[]string{set("719", launches)}, "failed-kernel", "a kernel failed while it ran: cudaLaunchKernel returned its error (719 cudaErrorLaunchFailure)"},
		"the first call of several":             {[]string{call("6000", copied, "700"), set("700", fill)}, "failed-kernel", "a kernel failed while it ran: cudaMemsetAsync returned its error (700 cudaErrorIllegalAddress)"},
		"the first call in a later row":         {[]string{set("700", fill), call("3200", copied, "700")}, "failed-kernel", "a kernel failed while it ran: cudaMemcpyAsync returned its error (700 cudaErrorIllegalAddress)"},
		"another error of that call before":     {[]string{set("1", fill), call("6000", filled, "700")}, "failed-kernel", "a kernel failed while it ran: cudaMemsetAsync returned its error (700 cudaErrorIllegalAddress)"},
		"launches after it": {[]string{set("719", fill), call("6000", launch, "719"), call("6100", launch, "719")}, "failed-kernel",
			"a kernel failed while it ran: cudaMemsetAsync returned its error (719 cudaErrorLaunchFailure); 2 later launches of kernels returned an error, and their kernels did not run"},
		"a launch before it": {[]string{set("98", launches), set("700", fill)}, "failed-launches", "1 launch of a kernel returned an error (98 cudaErrorInvalidDeviceFunction), and its kernel did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := read(t, append(schema2025(), c.change...)...)
			i := slices.IndexFunc(tr.Warnings, func(w gpuprof.Warning) bool { return w.Code == c.code })
			if i < 0 || tr.Warnings[i].Text != c.want {
				t.Errorf("warnings %v, want %q", tr.Warnings, c.want)
			}
		})
	}
}

// TestWholeGraph: a graph launch that was recorded as one row.
func TestWholeGraph(t *testing.T) {
	tr := read(t, append(schema2025(), "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER)",
		"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (7000,7500,0,7,14,"+pid100+")")...)
	got := gpus(tr)[5]
	if want := (gpuRow{Start: 7000, End: 7500, Name: "CUDA graph", Launch: "cudaGraphLaunch", Kind: model.Kernel, Graph: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRanksOfOneFile: two processes that each call their GPU device 0 and
// use the same correlation ids.
func TestRanksOfOneFile(t *testing.T) {
	tr := read(t, append(schema2025(),
		"INSERT INTO TARGET_INFO_GPU VALUES (1,3,'Another made-up GPU','',1,1,99,9,0)",
		"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3,0,200,'',99)",
		"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start-1900,end-1900,deviceId,contextId,streamId,correlationId,"+pid200+",demangledName,shortName,mangledName,launchType,gridX,gridY,gridZ,blockX,blockY,blockZ,graphNodeId,greenContextId,graphId,tensorSizeMinusOneElements FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 11",
		"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50,60,0,"+tid200+",11,3,0,NULL)")...)
	if len(tr.Devices) != 2 || tr.Devices[0].ID != 0 || tr.Devices[1].ID != 3 || tr.Devices[1].Name != "Another made-up GPU" {
		t.Fatalf("devices %+v", tr.Devices)
	}
	for i := range tr.GPU {
		g := &tr.GPU[i]
		if g.Corr != 11 {
			continue
		}
		if g.Launch < 0 || tr.Lanes[tr.Host[g.Launch].Lane].Process != g.Process {
			t.Errorf("operation of process %d has launch %d", g.Process, g.Launch)
		}
		if want := map[int32]uint16{100: 0, 200: 1}[g.Process]; g.Device != want {
			t.Errorf("operation of process %d is on device %d, want %d", g.Process, g.Device, want)
		}
	}
}

// Devices have the numbers of CUDA, by which programs choose them, where all processes agree on them.
func TestDevicesHaveNumbersOfCUDA(t *testing.T) {
	tr := read(t, append(schema2025(),
		"DELETE FROM TARGET_INFO_CUDA_DEVICE",
		"INSERT INTO TARGET_INFO_GPU VALUES (1,1,'GPU of device 0','',1,1,99,9,0)",
		"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0,1,100,'',108), (1,0,100,'',99), (0,1,200,'',108), (1,0,200,'',99)")...)
	if len(tr.Devices) != 1 || tr.Devices[0].ID != 0 || tr.Devices[0].Name != "GPU of device 0" {
		t.Errorf("devices %+v", tr.Devices)
	}
}

// Migrations of unified memory are copies beside the streams; faults are counted, a group of a device's as many.
func TestUnifiedMemory(t *testing.T) {
	tr := read(t, append(schema2023(), "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (31,'CUDA_MEMCPY_KIND_UVM_HTOD',''), (32,'CUDA_MEMCPY_KIND_UVM_DTOH','')",
		"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start,end,deviceId,contextId,streamId,correlationId,globalPid,bytes,copyKind) VALUES (2100,2600,0,1,7,0,"+pid100+",65536,31), (2700,2750,0,1,7,0,"+pid100+",4096,32)",
		"CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER, address INTEGER, numberOfPageFaults INTEGER)",
		"INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES (2050,2060,"+pid100+",0,4096,12), (2070,2080,"+pid100+",0,8192,5)",
		"CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, globalPid INTEGER, address INTEGER)",
		"INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS VALUES (2650,"+pid100+",4096)")...)
	var got []model.Direction
	for i := range tr.GPU {
		switch g := &tr.GPU[i]; {
		case g.Memory == model.Migrated:
			got = append(got, g.Dir)
			if g.Launch >= 0 || g.Stream >= 0 || !strings.HasSuffix(tr.Name(g.Name), "(unified memory)") {
				t.Errorf("%s: %+v", tr.Name(g.Name), g)
			}
		case g.Kind == model.Kernel && g.Start == 2000 && g.End != 3000:
			t.Errorf("a migration beside a kernel ends it at %d", g.End)
		}
	}
	if !slices.Equal(got, []model.Direction{model.H2D, model.D2H}) || tr.Faults != (model.PageFaults{Device: 17, Host: 1}) {
		t.Errorf("migrations %v, faults %+v", got, tr.Faults)
	}
}

// TestCrossingRanges: start/end ranges stay on their thread's lane when they
// nest and move to another when they do not; marks and open ranges.
func TestCrossingRanges(t *testing.T) {
	insert := "INSERT INTO NVTX_EVENTS (start,end,eventType,text,globalTid) VALUES "
	tr := read(t, append(schema2025(), "DELETE FROM NVTX_EVENTS",
		insert+"(800,6000,69,'epoch',"+tid100+"),(1000,3000,69,'a',"+tid100+")",
		insert+"(1500,1750,70,'nests',"+tid100+"),(2000,4000,70,'crosses a',"+tid100+"),(2500,4500,70,'crosses both',"+tid100+")",
		insert+"(2100,NULL,34,'mark',"+tid100+"),(5000,NULL,69,'ProfilerStep#9',"+tid100+")")...)
	at := map[string]string{}
	for i := range tr.Host {
		h := &tr.Host[i]
		if h.Kind != model.API {
			at[tr.Name(h.Name)] = tr.Lanes[h.Lane].Name + " " + h.Kind.String()
		}
	}
	want := map[string]string{"epoch": "python3 annotation", "a": "python3 annotation", "nests": "python3 annotation", "mark": "python3 instant",
		"crosses a": "python3, ranges 1 annotation", "crosses both": "python3, ranges 2 annotation", "ProfilerStep#9": "python3 annotation"}
	if d := cmp.Diff(want, at); d != "" {
		t.Errorf("lanes (-want +got):\n%s", d)
	}
	if !slices.Contains(codes(tr), "open-ranges") {
		t.Errorf("warnings %v", tr.Warnings)
	}
	for i := range tr.Host {
		for j := range tr.Host[:i] {
			a, b := tr.Host[j], tr.Host[i]
			if a.Lane == b.Lane && a.Start < b.Start && b.Start < a.End && a.End < b.End {
				t.Errorf("%s and %s cross on one lane", tr.Name(a.Name), tr.Name(b.Name))
			}
		}
	}
}

// TestMore reads stacks, memory and the profiler's overhead.
func TestMore(t *testing.T) {
	tr := read(t, append(schema2025(),
		"CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, stackDepth INTEGER)",
		"INSERT INTO StringIds VALUES (20,'train; loop'),(21,'forward'),(22,'at::mm')",
		"INSERT INTO CUDA_CALLCHAINS VALUES (5,22,0,0),(5,21,0,1),(5,20,0,2),(6,22,0,0),(6,21,0,1),(6,20,0,2)",
		"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 5 WHERE correlationId = 11", "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 6 WHERE correlationId = 12",
		"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER)",
		"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (100,"+pid100+",0,512,52,0),(200,"+pid100+",0,512,52,1),(300,"+pid100+",0,64,51,0)",
		"CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, overheadType INTEGER)",
		"INSERT INTO PROFILER_OVERHEAD VALUES (1610,1620,"+tid100+",21,3)")...)
	if d := cmp.Diff([]string{"train, loop;forward;at::mm"}, tr.Stacks); d != "" {
		t.Errorf("stacks (-want +got):\n%s", d)
	}
	for i := range tr.Host {
		h := &tr.Host[i]
		if with := h.Corr == 11 || h.Corr == 12; h.Kind == model.API && with != (h.Stack == 1) || h.Stack > 1 {
			t.Errorf("call %d has stack %d", h.Corr, h.Stack)
		}
	}
	mem := []model.MemoryEvent{{At: 100, Bytes: 512, Allocated: -1, Reserved: -1}, {At: 200, Bytes: -512, Allocated: -1, Reserved: -1}, {At: 300, Bytes: 64, Allocated: -1, Reserved: -1, Device: -1}}
	if d := cmp.Diff(mem, tr.Memory); d != "" {
		t.Errorf("memory (-want +got):\n%s", d)
	}
	if !tr.Inflated {
		t.Error("overhead does not show")
	}
}

// TestOwnOverhead: what CUDA does for itself does not inflate the times.
func TestOwnOverhead(t *testing.T) {
	tr := read(t, append(schema2025(),
		"CREATE TABLE ENUM_CUPTI_OVERHEAD_TYPE (id INTEGER, name TEXT, label TEXT)", "INSERT INTO ENUM_CUPTI_OVERHEAD_TYPE VALUES (7,'','Lazy function loading (CUDA)')",
		"CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, overheadType INTEGER)",
		"INSERT INTO PROFILER_OVERHEAD VALUES (1610,1620,"+tid100+",1,7)")...)
	if tr.Inflated {
		t.Error("lazy loading counts as the profiler's")
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name, path string
		kind       error
		says       string
	}{
		{"missing", filepath.Join(dir, "nothing.sqlite"), gpuprof.ErrUsage, "no such file"},
		{"folder", dir, gpuprof.ErrInput, "not a regular file"},
		{"empty", write("empty.sqlite", ""), gpuprof.ErrInput, "empty"},
		{"text", write("text.sqlite", "hello"), gpuprof.ErrInput, "not an SQLite database"},
		{"header only", write("head.sqlite", magic), gpuprof.ErrInput, "inside the database header"},
		{"garbage after the header", write("bad.sqlite", magic+strings.Repeat("\xff", 5000)), gpuprof.ErrInput, "damaged"},
		{"report", write("r.nsys-rep", "\x00\x01binary"), gpuprof.ErrInput, "nsys export --type sqlite r.nsys-rep"},
		{"other database", build(t, "CREATE TABLE photos (id INTEGER)"), gpuprof.ErrInput, "CUPTI_ACTIVITY_KIND_KERNEL"},
		{"empty database", build(t, "CREATE TABLE a (b)", "DROP TABLE a"), gpuprof.ErrInput, "nsys export --type sqlite"},
		{"no events", build(t, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER)"), gpuprof.ErrInput, "no events"},
		{"rocprof of the first version", build(t, "CREATE TABLE HIP (a)", "CREATE TABLE OPS (a)"), gpuprof.ErrInput, "rocprofv3 --runtime-trace"},
		{"counts of rocprof", build(t, "CREATE TABLE KERN (a)"), gpuprof.ErrInput, "rocprof's first version"},
		{"not traced, with a reason", build(t, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)", "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER)",
			"INSERT INTO DIAGNOSTIC_EVENT VALUES (1,1,2,'No CUDA events collected. Does the process use CUDA?',0)"), gpuprof.ErrInput, "Nsight Systems reported: No CUDA events collected."},
		{"not traced", build(t, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)"), gpuprof.ErrInput, "--trace=cuda,nvtx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := Read(t.Context(), c.path, c.path, 0)
			if err == nil {
				t.Fatalf("read %d events", tr.Events)
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Base(c.path)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one of kind %v that says %q", err, c.kind, c.says)
			}
		})
	}
}

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		head, path    string
		sniff, report bool
	}{
		{magic + "rest", "a.sqlite", true, false},
		{magic + "rest", "a.nsys-rep", true, false},
		{"PK", "a.nsys-rep", false, true},
		{"PK", "a.QDREP", false, true},
		{"{}", "a.json", false, false},
		{"", "", false, false},
	} {
		if s, r := Sniff([]byte(c.head)), IsReport([]byte(c.head), c.path); s != c.sniff || r != c.report {
			t.Errorf("%q %q: sniff %v, report %v", c.head, c.path, s, r)
		}
	}
}

// TestLeavesNoTrace reads from a folder nobody may write to, a database
// another program has locked, under a name that means something in a URI.
func TestLeavesNoTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b%20?c#d&e;ü")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x?mode=rwc&y=%41#z.sqlite")
	buildAt(t, path, append(schema2025(), "PRAGMA journal_mode = WAL")...)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	tr, err := Read(t.Context(), path, path, 0)
	if err != nil || tr.Events != 12 {
		t.Fatalf("read %v, %v", tr, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are in the folder, %v", len(entries), err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file changed, or cannot be read: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // so that the folder can be removed
		t.Fatal(err)
	}
}

func TestLocked(t *testing.T) {
	path := build(t, schema2025()...)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE; DELETE FROM NVTX_EVENTS"); err != nil {
		t.Fatal(err)
	}
	tr, err := Read(t.Context(), path, path, 0)
	if err != nil || tr.Events != 12 {
		t.Fatalf("read %v, %v", tr, err)
	}
	if _, err := os.Stat(path + "-journal"); err == nil && !slices.Contains(codes(tr), "unfinished-export") {
		t.Errorf("a journal lies beside the file, but the warnings are %v", tr.Warnings)
	}
}

// TestTruncated cuts the file everywhere: what is read is part of the whole.
func TestTruncated(t *testing.T) {
	path := build(t, schema2025()...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.sqlite")
	kept := 0
	for size := len(whole) - 1; size > 0; size -= 1111 {
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		tr, err := Read(t.Context(), cut, cut, 0)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		kept++
		if !tr.Truncated || !slices.Contains(codes(tr), "truncated") || tr.Events > 12 {
			t.Errorf("%d bytes: truncated %v, %d events, %v", size, tr.Truncated, tr.Events, tr.Warnings)
		}
	}
	if kept < 3 {
		t.Errorf("only %d of the cut files gave anything", kept)
	}
}

// TestHostileSchema: tables that are programs are not run.
func TestHostileSchema(t *testing.T) {
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS start, i AS end, 1 AS globalTid, 'x' AS text, 59 AS eventType FROM n"
	s := append(schema2025(), "DROP TABLE NVTX_EVENTS", "CREATE VIEW NVTX_EVENTS AS "+endless,
		"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX",
		"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN gridX INTEGER AS (length(zeroblob(1000000000)))")
	tr := read(t, s...)
	if len(tr.GPU) != 5 || tr.GPU[1].Blocks != 0 || !slices.Contains(codes(tr), "no-nvtx") {
		t.Errorf("%d operations, %d blocks, %v", len(tr.GPU), tr.GPU[1].Blocks, tr.Warnings)
	}
}

func TestCancel(t *testing.T) {
	path := build(t, append(schema2025(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 60000) INSERT INTO NVTX_EVENTS (start,end,eventType,text,globalTid) SELECT 10000+i*10, 10005+i*10, 69, 'x', "+tid100+" FROM n")...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, path, path, 0); !errors.Is(err, context.Canceled) || errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("before: %v", err)
	}
	for calls := range 12 { // in the middle, wherever that falls
		ctx := &lateContext{Context: t.Context()}
		ctx.left.Store(int64(4 * calls))
		if _, err := Read(ctx, path, path, 0); !errors.Is(err, context.Canceled) || errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("after %d looks: %v", 4*calls, err)
		}
	}
}

// lateContext is cancelled once it has been asked a number of times.
type lateContext struct {
	context.Context
	left atomic.Int64
}

func (c *lateContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCycle: a table whose pages lead back to themselves ends.
func TestCycle(t *testing.T) {
	const page = 512
	path := build(t, append([]string{"PRAGMA page_size = 512"}, append(schema2025(),
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3000) INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 10000+i*10, 10005+i*10, 0, "+tid100+", 1000+i, 3, 0, NULL FROM n")...)...)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var root int
	if err := errors.Join(db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'").Scan(&root), db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	top := b[(root-1)*page:][:page]
	if top[0] != 5 {
		t.Fatalf("the table's first page has type %d; it should be an inner one", top[0])
	}
	// Every child of the first page becomes the last one's first, an inner page itself.
	first := binary.BigEndian.Uint16(top[12:])
	child := binary.BigEndian.Uint32(top[first:])
	inner := b[(int(child)-1)*page:][:page]
	if inner[0] != 5 {
		t.Fatalf("the second page has type %d; it should be an inner one", inner[0])
	}
	for i := range int(binary.BigEndian.Uint16(inner[3:])) {
		cell := binary.BigEndian.Uint16(inner[12+2*i:])
		if i > 0 {
			binary.BigEndian.PutUint32(inner[cell:], child) // into itself, as often as it has room
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := Read(t.Context(), path, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !tr.Truncated || !slices.Contains(codes(tr), "damaged-table") || len(tr.Host) > len(b)/leastEvent+2048 {
		t.Errorf("truncated %v, %d events of %d bytes, %v", tr.Truncated, len(tr.Host), len(b), tr.Warnings)
	}
}

// A rocpd database of another schema, as that of rpd, is refused by its name.
func TestRocpd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.db")
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.ExecContext(t.Context(), `CREATE TABLE rocpd_string (id integer, string varchar); CREATE TABLE rocpd_op (id integer)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), path, path, 0); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "rocpd database of a schema that is not known") {
		t.Fatal(err)
	}
}
