package nsys

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// reader fills a trace from the tables, in one pass over each.
type reader struct {
	*database
	t *model.Trace

	names  names
	lanes  map[int64]uint32 // by globalTid
	failed analyze.FailedCalls
	// firstLane is the first lane seen of each process.
	firstLane map[int32]uint32
	devices   map[int64]uint16 // by GPU id
	gpuOf     map[cudaDevice]int64
	described map[int64]model.Device // properties of the described GPUs, by id
	// loose are host events that need not nest with the events of their lane.
	loose        []model.Host
	noProcess    int // device operations without a recorded process
	stacks       stacks
	threadNames  map[uint32]int64 // string ids by lane
	processNames map[int32]string

	copyKinds, memKinds, eventTypes map[int64]string

	backwards  int // events that end before they start
	openRanges int // ranges without an end in the recording
	dropped    int // events outside the memory budget
	room       *model.MemoryBudget
	rows       int  // events read, for fitEvery
	full       bool // no more events are kept
}

// cudaDevice is a GPU number within a process.
type cudaDevice struct{ pid, id int64 }

func newReader(d *database, room *model.MemoryBudget) *reader {
	t := &model.Trace{Path: d.path, Format: model.Nsys, Rank: -1}
	return &reader{database: d, t: t, room: room,
		names: newNames(t), lanes: map[int64]uint32{}, firstLane: map[int32]uint32{}, devices: map[int64]uint16{}, gpuOf: map[cudaDevice]int64{},
		described: map[int64]model.Device{}, stacks: newStacks(), threadNames: map[uint32]int64{}, processNames: map[int32]string{},
		copyKinds: defaultCopyKinds(), memKinds: defaultMemKinds(), eventTypes: defaultEventTypes()}
}

func (r *reader) readTables(ctx context.Context) error {
	if err := r.checkSchema(ctx); err != nil {
		return err
	}
	r.warnIncomplete("copy or export the file again")
	r.t.GPU = make([]model.GPU, 0, r.room.AtMost(r.guessRows(ctx, tKernel, tMemcpy, tMemset, tGraph), model.GPUBytes))
	r.t.Host = make([]model.Host, 0, r.room.AtMost(r.guessRows(ctx, tRuntime, tDriver, tNVTX), model.HostBytes))
	for _, step := range []struct {
		table string
		read  func(context.Context, string, columns) error
	}{
		{tCopyKinds, r.readEnum(func() map[int64]string { return r.copyKinds }, trimKind)},
		{tMemKinds, r.readEnum(func() map[int64]string { return r.memKinds }, trimKind)},
		{tEventTypes, r.readEnum(func() map[int64]string { return r.eventTypes }, strings.ToLower)},
		{tDevice, r.readCUDADevices}, {tOldGPU, r.readGPUs}, {tGPU, r.readGPUs},
		{tKernel, r.readKernels}, {tMemcpy, r.readCopies}, {tMemset, r.readFills}, {tGraph, r.readGraphLaunches},
		{tRuntime, r.readCalls}, {tDriver, r.readCalls}, {tNVTX, r.readRanges}, {tOverhead, r.readOverhead},
		{tMemory, r.readMemory}, {tGPUFaults, r.readDeviceFaults}, {tCPUFaults, r.readHostFaults}, {tCallchain, r.readCallchains}, {tThreads, r.readThreads},
		{tStrings, r.readStrings}, {tProcesses, r.readProcesses}, {tDiag, r.readDiagnostics},
	} {
		read := func(cols columns) error { return step.read(ctx, step.table, cols) }
		if err := r.readTable(ctx, step.table, "copy or export the file again", read); err != nil {
			return err
		}
	}
	return nil
}

// readTable reads a table if it exists. If that fails, the rows read so far are kept, with a warning whose fix is
// again. The only error is a cancelled ctx.
func (r *reader) readTable(ctx context.Context, table, again string, read func(columns) error) error {
	cols, ok := r.table[table]
	if !ok {
		return nil
	}
	if err := read(cols); err != nil {
		if ctx.Err() != nil {
			return cancelledError(ctx, r.file)
		}
		r.t.Truncated = true
		r.t.Warn("damaged-table", fmt.Sprintf("table %s could not be read to its end (%v): %d events were read so far", table, err, r.t.Events), again)
	}
	return nil
}

// warnIncomplete warns about a journal, and about missing pages at the end of the file.
func (r *reader) warnIncomplete(again string) {
	warnJournal(r.t)
	if r.isShort() {
		r.t.Truncated = true
		r.t.Warn("truncated", fmt.Sprintf("the file ends at byte %d of %d: tables or parts of tables are missing", r.size, r.expected), again)
	}
}

// nsysTables counts the event tables of nsys.
func (r *reader) nsysTables() int {
	n := 0
	for _, t := range []string{tKernel, tMemcpy, tMemset, tGraph, tRuntime, tDriver, tNVTX} {
		if _, ok := r.table[t]; ok {
			n++
		}
	}
	return n
}

// checkSchema returns an error for a database that nsys did not write.
func (r *reader) checkSchema(ctx context.Context) error {
	if r.nsysTables() > 0 {
		return nil
	}
	if r.isShort() {
		return damagedError(r.file, fmt.Errorf("no event table is left"))
	}
	if r.wal {
		return journalError(r.path)
	}
	if _, ok := r.table[tStrings]; ok {
		why := fmt.Sprintf("no table %s, %s or %s", tKernel, tRuntime, tNVTX)
		if err := r.readTable(ctx, tDiag, "", func(cols columns) error { return r.readDiagnostics(ctx, tDiag, cols) }); err != nil {
			return err
		}
		if said := analyze.RecorderMessage(r.t.Warnings); said != "" {
			why += "; " + said
		}
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the export holds neither CUDA nor NVTX events (%s)", r.path, why).WithFix("record with: nsys profile --trace=cuda,nvtx")
	}
	if r.oldRocprof {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this database is of rocprof's first version (tables KERN, HIP or OPS), which gpuprof does not read", r.path).WithFix("record again with: %s", rocprofCommand)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this database is no Nsight Systems export (it has no table %s, %s or %s)", r.path, tKernel, tRuntime, tNVTX).WithFix("make one with: %s report.nsys-rep", exportCommand)
}

// finishTrace completes the data that depend on several tables.
func (r *reader) finishTrace(ctx context.Context) error {
	if len(r.t.Host)+len(r.loose) == 0 && len(r.t.GPU) == 0 {
		if r.t.Truncated {
			return damagedError(r.file, fmt.Errorf("no event could be read"))
		}
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: its tables hold no events", r.path).WithFix("%s while the program works, and check that the profiler printed no error", r.recordingAdvice().record)
	}
	if ctx.Err() != nil {
		return cancelledError(ctx, r.file)
	}
	r.t.SortDevices()
	r.resolveNames()
	r.nameLanes()
	r.nameProcess()
	r.closeRanges()
	r.t.Nest(r.loose, r.addHost)
	r.addWarnings()
	r.t.Finish()
	r.room.Finish(r.t, 0)
	return nil
}

// readEnum returns a function that reads an ENUM table into a map and thereby replaces defaults.
func (r *reader) readEnum(into func() map[int64]string, form func(string) string) func(context.Context, string, columns) error {
	return func(ctx context.Context, table string, c columns) error {
		if !c.hasAll("id", "name") {
			return nil
		}
		m := into()
		return r.queryRows(ctx, `SELECT `+c.firstColumn("id")+`, `+c.firstColumn("name")+` FROM `+r.quotedTable(table), 2, func(v []any) {
			if id, ok := parseInteger(v[0]); ok {
				if name := textOf(v[1]); name != "" {
					m[id] = form(name)
				}
			}
		})
	}
}

// readEvents reads a table of events. It calls row with start, end (-1 if missing) and the selected columns of each
// kept event.
func (r *reader) readEvents(ctx context.Context, table string, c columns, where string, selected []string, row func(start, end int64, v []any)) error {
	if !c.hasAll("start", "end") {
		r.t.Warn("unknown-schema", fmt.Sprintf("table %s has no columns start and end and is left out", table), "export again with: "+exportCommand+" --force-overwrite true report.nsys-rep")
		return nil
	}
	q := `SELECT ` + strings.Join(append([]string{c.firstColumn("start"), c.firstColumn("end")}, selected...), ", ") + ` FROM ` + r.quotedTable(table) + where
	return r.scanRows(ctx, q, 2+len(selected), leastEvent, func(v []any) { r.readRow(v, row) })
}

// readRow parses start and end of a row and calls row if the event is kept.
func (r *reader) readRow(v []any, row func(start, end int64, v []any)) {
	r.t.Events++
	start, ok := parseInteger(v[0])
	if !ok || start > math.MaxInt64/4 || start < math.MinInt64/4 {
		r.backwards++
		return
	}
	if !r.isKept(start) {
		return
	}
	end, ok := parseInteger(v[1])
	if !ok || end > math.MaxInt64/4 {
		end = -1
	}
	row(start, end, v[2:])
}

// clampEnd returns the end of an event, or its start if that is later.
func (r *reader) clampEnd(start, end int64) int64 {
	if end < start {
		r.backwards++
		return start
	}
	return end
}

func (r *reader) addHost(h model.Host) {
	r.t.Host = append(r.t.Host, h)
}

func (r *reader) addGPU(g model.GPU) {
	r.t.GPU = append(r.t.GPU, g)
}

func pidTid(global int64) (pid int32, tid int64) {
	return int32(global >> 24 & 0xffffff), global & 0xffffff
}

// laneOf returns the lane of a thread, and makes a new one if needed.
func (r *reader) laneOf(globalTid int64) uint32 {
	if i, ok := r.lanes[globalTid]; ok {
		return i
	}
	pid, tid := pidTid(globalTid)
	i := uint32(len(r.t.Lanes))
	r.lanes[globalTid] = i
	r.t.Lanes = append(r.t.Lanes, model.Lane{Process: pid, Thread: tid})
	if _, ok := r.firstLane[pid]; !ok {
		r.firstLane[pid] = i
	}
	return i
}

// countLaunchers counts the processes that call CUDA.
func (r *reader) countLaunchers() int {
	pids := map[int32]bool{}
	for i := range r.t.Host {
		if h := &r.t.Host[i]; h.Kind == model.API {
			pids[r.t.Lanes[h.Lane].Process] = true
		}
	}
	return len(pids)
}

// nameProcess sets the name of the process with most CUDA calls.
func (r *reader) nameProcess() {
	calls, most := map[int32]int{}, 0
	for i := range r.t.Host {
		if h := &r.t.Host[i]; h.Kind == model.API {
			calls[r.t.Lanes[h.Lane].Process]++
		}
	}
	for pid, n := range calls {
		if name := r.processNames[pid]; name != "" && (n > most || n == most && name < r.t.Process) {
			most, r.t.Process = n, name
		}
	}
}

// closeRanges ends the open ranges at the end of the recording. An open step becomes a plain range.
func (r *reader) closeRanges() {
	last := int64(math.MinInt64)
	for i := range r.t.Host {
		last = max(last, r.t.Host[i].Start, r.t.Host[i].End)
	}
	for i := range r.loose {
		last = max(last, r.loose[i].Start, r.loose[i].End)
	}
	for i := range r.t.GPU {
		last = max(last, r.t.GPU[i].End)
	}
	for _, hs := range [][]model.Host{r.t.Host, r.loose} {
		for i := range hs {
			if h := &hs[i]; h.End < h.Start {
				r.openRanges++
				h.End = last
				if h.Kind == model.Step {
					h.Kind = model.Annotation
				}
			}
		}
	}
}

// recordAdvice holds texts for messages: the names of the profiler's calls and ranges, how to record calls and how to
// record ranges, and the tables that hold names.
type recordAdvice struct{ calls, ranges, record, emit, names string }

func (r *reader) recordingAdvice() recordAdvice {
	if r.t.Format == model.Rocpd {
		return recordAdvice{"HIP", "ROCTx", "record with " + rocprofCommand,
			"put a ROCTx range around each iteration (roctxRangePush), or around each operator", pdString + " or " + pdSymbol}
	}
	return recordAdvice{"CUDA", "NVTX", "record with nsys profile --trace=cuda,nvtx", "record with --trace=cuda,nvtx and put an NVTX range around each iteration (nvtxRangePush), or around each operator", tStrings}
}

func (r *reader) addWarnings() {
	t, to := r.t, r.recordingAdvice()
	kinds := map[model.Kind]int{}
	for i := range t.Host {
		kinds[t.Host[i].Kind]++
	}
	r.failed.Warn(t, r.names.finalName)
	if len(t.GPU) > 0 && kinds[model.API] == 0 {
		t.Warn("no-launches", "no "+to.calls+" call was recorded, so no operation's launch is known and idle time cannot be told apart", to.record)
	}
	if kinds[model.Op]+kinds[model.Annotation]+kinds[model.Step] == 0 {
		why := "no " + to.ranges + " range was recorded"
		if _, ok := r.table[tNVTX]; !ok && t.Format == model.Nsys {
			why = "the export has no table " + tNVTX
		}
		t.Warn("no-nvtx", why+", so there are no steps and no operators", to.emit)
	}
	if n := r.countLaunchers(); r.noProcess > 0 && n > 1 {
		t.Warn("no-process", fmt.Sprintf("%d device operations do not say which of %d processes launched them; if processes share a correlation id, the launch is unknown", r.noProcess, n), "")
	}
	if r.backwards > 0 {
		t.Warn("bad-times", fmt.Sprintf("%d events have no valid time or end before they start; they count as having no length", r.backwards), "")
	}
	if r.openRanges > 0 {
		t.Warn("open-ranges", fmt.Sprintf("%d "+to.ranges+" ranges were still open when the recording ended; they are taken to end with it", r.openRanges), "")
	}
	if r.dropped > 0 {
		t.Truncated = true
		t.Warn("too-many-events", fmt.Sprintf("%d events are more than the %s that memory has room for, and were left out", r.dropped, outside.MemoryText(outside.TraceMemory())),
			"set "+outside.MemoryVariable+" higher, or record a shorter part of the run")
	}
	if n := r.names.missing; n > 0 {
		t.Warn("missing-names", fmt.Sprintf("table %s lacks the text of %d names; they are shown by number and have no class", to.names, n), "")
	}
}
