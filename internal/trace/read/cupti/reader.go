package cupti

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type reader struct {
	t     *model.Trace
	f     recordFields
	room  *model.MemoryBudget
	torn  error // why the file has no complete end, nil if it has
	ended bool  // the recorder closed the file

	names   map[uint32]string // names of the file by number
	ids     map[string]model.NameID
	byForm  map[formKey]model.NameID
	bytes   int64 // memory of names and similar data
	process int32
	visible []int // devices by number within the process, from CUDA_VISIBLE_DEVICES; nil without a list of numbers

	lanes          map[uint32]uint32
	devices        map[uint64]uint16
	events         []nvtxEvent
	loose          []model.Host
	runtimeCorrs   []uint32 // correlation ids of runtime calls
	hasDriverCalls bool     // there are driver calls
	clocks         []clockPair
	lost           lostCounts
	failed         map[callKey]int64 // error codes of calls, for nameFailed
	graphs         int               // graph launches that were recorded as one operation
	rows           int
	dropped        int
	full           bool
	lastTime       int64
}

// perBuffer is the largest number of records in a recorder's buffer (1 MiB). mostLost limits the counts of lost
// records, because a damaged file may have absurd ones.
const (
	perBuffer = 1 << 20 / 88
	mostLost  = 1 << 40
)

// callKey identifies a call.
type callKey struct {
	lane  uint32
	start int64
	name  model.NameID
}

type lostCounts struct{ cupti, buffers, write, names, nvtx uint64 }

func newReader(path string, room *model.MemoryBudget) *reader {
	return &reader{t: &model.Trace{Path: path, Format: model.CUDA, Rank: -1}, room: room, names: map[uint32]string{}, ids: map[string]model.NameID{},
		byForm: map[formKey]model.NameID{}, lanes: map[uint32]uint32{}, devices: map[uint64]uint16{}, failed: map[callKey]int64{}}
}

func (r *reader) readChunk(k chunk) {
	each := func(do func(record []byte)) {
		for _, record := range k.splitRecords(1) {
			do(record)
		}
	}
	switch k.kind {
	case tSchema:
		r.f.setLayouts(parseSchema(string(k.payload)))
	case tProcess:
		r.readProcess(string(k.payload))
	case tNames:
		r.readNames(k)
	case tClock:
		each(r.readClock)
	case tKernel:
		each(r.readKernel)
	case tCopy:
		each(r.readCopy)
	case tFill:
		each(r.readFill)
	case tGraph:
		each(r.readGraph)
	case tCall:
		each(r.readCall)
	case tNVTX:
		each(r.readNVTX)
	case tDevice:
		each(r.readDevice)
	case tThread:
		each(r.readThread)
	case tLost:
		each(r.readLost)
	case tOverhead:
		each(r.readOverhead)
	case tCut:
		if r.t.Cut == nil {
			r.t.Cut = model.ReadCut(bytes.TrimRight(k.payload, "\x00"), 0)
		}
	case tEnd:
		r.ended = true
	}
}

func (r *reader) readProcess(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\x00")) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		n, err := strconv.Atoi(value)
		number := err == nil && n >= 0 && n <= math.MaxInt32
		switch {
		case key == "pid" && number:
			r.process = int32(n)
		case key == "rank" && number:
			r.t.Rank = n
		case key == "world" && number:
			r.t.World = n
		case key == "visible":
			r.visible = parseVisibleDevices(value)
		case key == "library":
			if f := frameworkOf(value); f > r.t.Framework {
				r.t.Framework = f
			}
		}
	}
}

// parseVisibleDevices parses CUDA_VISIBLE_DEVICES; nil if it does not list numbers.
func parseVisibleDevices(list string) (out []int) {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 || n >= 1<<16 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (r *reader) readLost(record []byte) {
	f := &r.f.lost
	r.lost = lostCounts{f.cupti.valueIn(record), f.buffers.valueIn(record), f.write.valueIn(record), f.names.valueIn(record), f.nvtx.valueIn(record)}
}

// finishTrace builds the trace after the last chunk. at is the length of the undamaged part, bytes, for messages.
func (r *reader) finishTrace(at int64) (*model.Trace, error) {
	t := r.t
	if len(t.Host)+len(t.GPU)+len(r.events) == 0 {
		why := "it holds no kernel, copy, call or range"
		if r.torn != nil {
			why = fmt.Sprintf("%s at byte %d, and nothing before that is an event", r.torn, at)
		}
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %s", t.Path, why).WithFix("record again while the program works on the GPU: gpuprof run --cuda -- COMMAND")
	}
	r.dropNestedDriverCalls()
	failed := r.nameFailed()
	r.placeRanges()
	t.Nest(r.loose, r.addHost)
	t.SortDevices()
	r.addWarnings(at)
	failed.Warn(t, func(n model.NameID) model.NameID { return n })
	t.Finish()
	r.room.Finish(t, 0)
	t.First = firstStart(t)
	return t, nil
}

func firstStart(t *model.Trace) int64 {
	at := int64(math.MaxInt64)
	if len(t.GPU) > 0 {
		at = t.GPU[0].Start
	}
	for i := range t.Host {
		at = min(at, t.Host[i].Start)
	}
	return at
}

// dropNestedDriverCalls removes driver calls that runtime calls made.
func (r *reader) dropNestedDriverCalls() {
	if !r.hasDriverCalls || len(r.runtimeCorrs) == 0 {
		return
	}
	slices.Sort(r.runtimeCorrs)
	r.t.Host = slices.DeleteFunc(r.t.Host, func(h model.Host) bool {
		if h.Kind != model.API || !isDriverCall(r.t.Name(h.Name)) {
			return false
		}
		_, inner := slices.BinarySearch(r.runtimeCorrs, uint32(h.Corr))
		return inner
	})
}

// nameFailed returns the calls that returned an error, and renames the launches among them (analyze.NameFailed).
func (r *reader) nameFailed() (failed analyze.FailedCalls) {
	for i := range r.t.Host {
		h := &r.t.Host[i]
		code, ok := r.failed[callKey{h.Lane, h.Start, h.Name}]
		if !ok || h.Kind != model.API {
			continue
		}
		call := h.Name
		h.Name = r.internText(analyze.NameFailed(r.t.Name(call)))
		failed.Add(h.Start, code, h.Name, call)
	}
	return failed
}

func (r *reader) addWarnings(at int64) {
	t := r.t
	switch {
	case r.torn != nil:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("%v, at byte %d; the part before that is analysed", r.torn, at), "")
	case !r.ended:
		t.Truncated = true
		t.Warn("truncated", "the process ended without closing its recording: up to the last tenth of a second is missing", "")
	}
	if l := r.lost; l.cupti+l.buffers+l.write > 0 {
		t.Lost = clampInt64(min(l.cupti, mostLost) + min(l.buffers, mostLost)*perBuffer + min(l.write, mostLost))
		t.Warn("dropped-events", fmt.Sprintf("the recording lacks records: %d that CUPTI dropped, %d buffers that found no room, %d records that could not be written", l.cupti, l.buffers, l.write), "record a shorter stretch, into a folder with room")
	}
	if n := r.lost.nvtx + r.lost.names; n > 0 {
		t.Warn("dropped-ranges", fmt.Sprintf("%d NVTX ranges, marks or names came faster than they could be kept", n), "")
	}
	if r.graphs > 0 {
		t.Warn("graphs-as-a-whole", "CUDA graphs were recorded as one operation each, so the kernels inside them are unknown", "record without --graphs whole to see them")
	}
	if r.dropped > 0 {
		t.Truncated = true
		t.Warn("too-many-events", fmt.Sprintf("%d events are more than the %s that memory has room for, and were left out", r.dropped, outside.MemoryText(outside.TraceMemory())),
			"set "+outside.MemoryVariable+" higher, or record a shorter part of the run")
	}
}
