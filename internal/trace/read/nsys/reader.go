package nsys

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// reader fills a trace from the tables, one pass over each.
type reader struct {
	*database
	t *model.Trace

	names names
	lanes map[int64]uint32 // by globalTid
	// firstLane is the first thread seen of a process.
	firstLane map[int32]uint32
	devices   map[int64]uint16 // by GPU id
	gpuOf     map[cudaDevice]int64
	known     map[int64]model.Device // GPUs as described, by id
	// loose are host events that may cross others of their lane.
	loose        []model.Host
	noProcess    int // device operations whose process is not recorded
	stacks       stacks
	threadNames  map[uint32]int64 // string id by lane
	processNames map[int32]string

	copyKinds, memKinds, eventTypes map[int64]string

	backwards int // events that end before they start
	open      int // ranges that had not ended when the recording did
	dropped   int // events that there is no room for, whenever they begin
	room      *model.Room
	rows      int  // of events that were looked at
	full      bool // nothing more is kept
}

// cudaDevice is how a program numbers a GPU.
type cudaDevice struct{ pid, id int64 }

func newReader(d *database, room *model.Room) *reader {
	t := &model.Trace{Path: d.path, Format: model.Nsys, Rank: -1}
	return &reader{database: d, t: t, room: room,
		names: newNames(t), lanes: map[int64]uint32{}, firstLane: map[int32]uint32{}, devices: map[int64]uint16{}, gpuOf: map[cudaDevice]int64{},
		known: map[int64]model.Device{}, stacks: newStacks(), threadNames: map[uint32]int64{}, processNames: map[int32]string{},
		copyKinds: defaultCopyKinds(), memKinds: defaultMemKinds(), eventTypes: defaultEventTypes()}
}

// tables reads every table that there is.
func (r *reader) tables(ctx context.Context) error {
	if err := r.recognise(); err != nil {
		return err
	}
	r.incomplete("copy or export the file again")
	r.t.GPU = make([]model.GPU, 0, r.room.AtMost(r.guess(ctx, tKernel, tMemcpy, tMemset, tGraph), model.GPUBytes))
	r.t.Host = make([]model.Host, 0, r.room.AtMost(r.guess(ctx, tRuntime, tDriver, tNVTX), model.HostBytes))
	for _, step := range []struct {
		table string
		read  func(context.Context, string, columns) error
	}{
		{tCopyKinds, r.enum(func() map[int64]string { return r.copyKinds }, afterKind)},
		{tMemKinds, r.enum(func() map[int64]string { return r.memKinds }, afterKind)},
		{tEventTypes, r.enum(func() map[int64]string { return r.eventTypes }, strings.ToLower)},
		{tDevice, r.cudaDevices}, {tOldGPU, r.gpus}, {tGPU, r.gpus},
		{tKernel, r.kernels}, {tMemcpy, r.copies}, {tMemset, r.fills}, {tGraph, r.graphLaunches},
		{tRuntime, r.calls}, {tDriver, r.calls}, {tNVTX, r.ranges}, {tOverhead, r.overhead},
		{tMemory, r.memory}, {tGPUFaults, r.deviceFaults}, {tCPUFaults, r.hostFaults}, {tCallchain, r.callchains}, {tThreads, r.threads},
		{tStrings, r.strings}, {tProcesses, r.processes}, {tDiag, r.diagnostics},
	} {
		read := func(cols columns) error { return step.read(ctx, step.table, cols) }
		if err := r.each(ctx, step.table, "copy or export the file again", read); err != nil {
			return err
		}
	}
	return nil
}

// each reads a table where there is one. Of one that breaks off what was read is
// kept, with a warning that says what to do again; only an end of the context is
// an error.
func (r *reader) each(ctx context.Context, table, again string, read func(columns) error) error {
	cols, ok := r.table[table]
	if !ok {
		return nil
	}
	if err := read(cols); err != nil {
		if ctx.Err() != nil {
			return cancelled(ctx, r.file)
		}
		r.t.Truncated = true
		r.t.Warn("damaged-table", fmt.Sprintf("table %s could not be read to its end (%v): %d events were read so far", table, err, r.t.Events), again)
	}
	return nil
}

// incomplete warns of a journal beside the file and of pages that are missing at
// its end.
func (r *reader) incomplete(again string) {
	leftovers(r.t)
	if r.short() {
		r.t.Truncated = true
		r.t.Warn("truncated", fmt.Sprintf("the file ends at byte %d of %d: tables or parts of tables are missing", r.size, r.expected), again)
	}
}

// nsysTables counts the tables of events that nsys writes.
func (r *reader) nsysTables() int {
	n := 0
	for _, t := range []string{tKernel, tMemcpy, tMemset, tGraph, tRuntime, tDriver, tNVTX} {
		if _, ok := r.table[t]; ok {
			n++
		}
	}
	return n
}

// recognise refuses a database that nsys did not write.
func (r *reader) recognise() error {
	if r.nsysTables() > 0 {
		return nil
	}
	if r.short() {
		return damaged(r.file, fmt.Errorf("no event table is left"))
	}
	if r.wal {
		return inJournal(r.path)
	}
	if _, ok := r.table[tStrings]; ok {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the export holds neither CUDA nor NVTX events (no table %s, %s or %s)", r.path, tKernel, tRuntime, tNVTX).WithFix("record with: nsys profile --trace=cuda,nvtx")
	}
	if r.oldRocprof {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this database is of rocprof's first version (tables HIP and OPS), which gpuprof does not read", r.path).WithFix("record again with: rocprofv3 --runtime-trace --output-format rocpd -- PROGRAM")
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this database is no Nsight Systems export (it has no table %s, %s or %s)", r.path, tKernel, tRuntime, tNVTX).WithFix("make one with: %s report.nsys-rep", export)
}

// finish settles what needed every table.
func (r *reader) finish(ctx context.Context) error {
	if len(r.t.Host)+len(r.loose) == 0 && len(r.t.GPU) == 0 {
		if r.t.Truncated {
			return damaged(r.file, fmt.Errorf("no event could be read"))
		}
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: its tables hold no events", r.path).WithFix("%s while the program works, and check that the profiler printed no error", r.advice().record)
	}
	if ctx.Err() != nil {
		return cancelled(ctx, r.file)
	}
	r.sortDevices()
	r.resolve()
	r.nameLanes()
	r.nameProcess()
	r.closeRanges()
	r.t.Nest(r.loose, r.addHost)
	r.report()
	r.t.Finish()
	r.room.Finish(r.t, 0)
	return nil
}

// enum reads an ENUM table into a map, over its defaults.
func (r *reader) enum(into func() map[int64]string, form func(string) string) func(context.Context, string, columns) error {
	return func(ctx context.Context, table string, c columns) error {
		if !c.has("id", "name") {
			return nil
		}
		m := into()
		return r.query(ctx, `SELECT `+c.column("id")+`, `+c.column("name")+` FROM `+r.from(table), 2, func(v []any) {
			if id, ok := integer(v[0]); ok {
				if name := text(v[1]); name != "" {
					m[id] = form(name)
				}
			}
		})
	}
}

// events runs a query over a table of events. columns are what to select,
// after start and end; row gets start and end sorted out, -1 for an end that
// is missing.
func (r *reader) events(ctx context.Context, table string, c columns, where string, selected []string, row func(start, end int64, v []any)) error {
	if !c.has("start", "end") {
		r.t.Warn("unknown-schema", fmt.Sprintf("table %s has no columns start and end and is left out", table), "export again with: "+export+" --force-overwrite true report.nsys-rep")
		return nil
	}
	q := `SELECT ` + strings.Join(append([]string{c.column("start"), c.column("end")}, selected...), ", ") + ` FROM ` + r.from(table) + where
	return r.scan(ctx, q, 2+len(selected), leastEvent, func(v []any) { r.timed(v, row) })
}

// timed sorts out start and end of a row and calls row for an event that is kept.
func (r *reader) timed(v []any, row func(start, end int64, v []any)) {
	r.t.Events++
	start, ok := integer(v[0])
	if !ok || start > math.MaxInt64/4 || start < math.MinInt64/4 {
		r.backwards++
		return
	}
	if !r.keeps(start) {
		return
	}
	end, ok := integer(v[1])
	if !ok || end > math.MaxInt64/4 {
		end = -1
	}
	row(start, end, v[2:])
}

// span mends an event that ends before it starts.
func (r *reader) span(start, end int64) int64 {
	if end < start {
		r.backwards++
		return start
	}
	return end
}

func (r *reader) addHost(h model.Host) {
	r.t.Host = append(r.t.Host, h)
}

// addGPU keeps a device operation.
func (r *reader) addGPU(g model.GPU) {
	r.t.GPU = append(r.t.GPU, g)
}

// pidTid takes a globalTid apart.
func pidTid(global int64) (pid int32, tid int64) {
	return int32(global >> 24 & 0xffffff), global & 0xffffff
}

// lane is the index of a thread.
func (r *reader) lane(globalTid int64) uint32 {
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

// launchers counts the processes that called CUDA.
func (r *reader) launchers() int {
	pids := map[int32]bool{}
	for i := range r.t.Host {
		if h := &r.t.Host[i]; h.Kind == model.API {
			pids[r.t.Lanes[h.Lane].Process] = true
		}
	}
	return len(pids)
}

// nameProcess names the process that calls the device most.
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

// closeRanges ends the ranges that were open when the recording stopped. A
// step that was cut off is no step to measure: it stays as a plain range.
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
				r.open++
				h.End = last
				if h.Kind == model.Step {
					h.Kind = model.Annotation
				}
			}
		}
	}
}

// advice is how to record what a database lacks.
type advice struct{ calls, ranges, record, emit, names string }

func (r *reader) advice() advice {
	if r.t.Format == model.Rocpd {
		return advice{"HIP", "ROCTx", "record with " + rocprof,
			"put a ROCTx range around each iteration (roctxRangePush), or around each operator", pdString + " or " + pdSymbol}
	}
	return advice{"CUDA", "NVTX", "record with nsys profile --trace=cuda,nvtx", "record with --trace=cuda,nvtx and put an NVTX range around each iteration (nvtxRangePush), or around each operator", tStrings}
}

// report warns of what limits the analysis.
func (r *reader) report() {
	t, to := r.t, r.advice()
	kinds := map[model.Kind]int{}
	for i := range t.Host {
		kinds[t.Host[i].Kind]++
	}
	if len(t.GPU) == 0 {
		t.Warn("no-device", "no device operation was recorded", to.record+", and let the recording cover work on the GPU")
	} else if kinds[model.API] == 0 {
		t.Warn("no-launches", "no "+to.calls+" call was recorded, so no operation's launch is known and idle time cannot be told apart", to.record)
	}
	if kinds[model.Op]+kinds[model.Annotation]+kinds[model.Step] == 0 {
		why := "no " + to.ranges + " range was recorded"
		if _, ok := r.table[tNVTX]; !ok && t.Format == model.Nsys {
			why = "the export has no table " + tNVTX
		}
		t.Warn("no-nvtx", why+", so there are no steps and no operators", to.emit)
	}
	if n := r.launchers(); r.noProcess > 0 && n > 1 {
		t.Warn("no-process", fmt.Sprintf("%d device operations do not say which of %d processes launched them; if processes share a correlation id, the launch is unknown", r.noProcess, n), "")
	}
	if r.backwards > 0 {
		t.Warn("bad-times", fmt.Sprintf("%d events have no valid time or end before they start; they count as having no length", r.backwards), "")
	}
	if r.open > 0 {
		t.Warn("open-ranges", fmt.Sprintf("%d "+to.ranges+" ranges were still open when the recording ended; they are taken to end with it", r.open), "")
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
