package nsys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func joinColumns(columns []string) string { return strings.Join(columns, ", ") }

func hasSuffixFold(s, suffix string) bool {
	return strings.HasSuffix(strings.ToUpper(s), suffix) && !strings.HasSuffix(strings.ToUpper(s), "_NO"+suffix)
}

func (r *reader) readCalls(ctx context.Context, table string, c columns) error {
	failed := 0
	sel := []string{c.firstColumn("globalTid"), c.firstColumn("correlationId"), c.firstColumn("nameId", "name"), c.firstColumn("returnValue"), c.firstColumn("callchainId")}
	err := r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		form := apiName
		// Queries return cudaErrorNotReady (600) while work is running.
		if code := integerOrZero(v[3]); code != 0 && code != 600 {
			failed++
			form = failedName
			noteError(r.failedWith, r.names.nameID(v[2], form), code)
			if f := &r.failedKernel; (f.code == 0 || start < f.start) && kernelErrors()[code] != "" {
				*f = failedCall{start, code, r.names.nameID(v[2], apiName)}
			}
		}
		h := model.Host{Start: start, End: r.clampEnd(start, end), Kind: model.API,
			Lane: r.laneOf(integerOrZero(v[0])), Corr: integerOrZero(v[1]), Name: r.names.nameID(v[2], form)}
		if id, ok := parseInteger(v[4]); ok {
			h.Stack = r.stacks.slotOf(id)
		}
		r.addHost(h)
	})
	if failed > 0 {
		r.t.Warn("failed-calls", fmt.Sprintf("%d CUDA calls returned an error", failed), "")
	}
	return err
}

// severalErrors is the error code of a name whose calls returned different errors.
const severalErrors = -1

// noteError stores the error code of the calls of a name.
func noteError(errors map[model.NameID]int64, name model.NameID, code int64) {
	if had, known := errors[name]; known && had != code {
		code = severalErrors
	}
	errors[name] = code
}

// launchErrors are launch errors that come from the build of a program, by code.
func launchErrors() map[int64]string {
	return map[int64]string{98: "cudaErrorInvalidDeviceFunction", 209: "cudaErrorNoKernelImageForDevice", 222: "cudaErrorUnsupportedPtxVersion"}
}

// kernelErrors are the errors of a kernel that failed while it ran, by code. Every later call returns the error too.
func kernelErrors() map[int64]string {
	return map[int64]string{700: "cudaErrorIllegalAddress", 702: "cudaErrorLaunchTimeout", 710: "cudaErrorAssert", 714: "cudaErrorHardwareStackError",
		715: "cudaErrorIllegalInstruction", 716: "cudaErrorMisalignedAddress", 717: "cudaErrorInvalidAddressSpace", 718: "cudaErrorInvalidPc", 719: "cudaErrorLaunchFailure"}
}

// failedCall is a call that returned an error; code is 0 for no call.
type failedCall struct {
	start, code int64
	name        model.NameID
}

// warnFailedKernel warns that a kernel failed, with the first call that returned its error and the number of launches
// that failed after that call.
func (r *reader) warnFailedKernel(later int) {
	f := r.failedKernel
	text := fmt.Sprintf("a kernel failed while it ran: %s returned its error (%d %s)", r.t.Name(r.names.resolved(f.name)), f.code, kernelErrors()[f.code])
	if later > 0 {
		text += "; " + describeFailed(later, "later ", "")
	}
	r.t.Warn("failed-kernel", text, "run the program under compute-sanitizer, which names the kernel and the line")
}

// warnFailedLaunches warns of a kernel that failed while it ran, and of launches that returned an error without one.
func (r *reader) warnFailedLaunches() {
	name, known := r.names.byText[failedLaunch]
	failed, later := 0, 0
	for i := range r.t.Host {
		switch h := &r.t.Host[i]; {
		case !known || h.Name != name:
		case r.failedKernel.code == 0 || h.Start < r.failedKernel.start:
			failed++
		case h.Start > r.failedKernel.start:
			later++
		}
	}
	if r.failedKernel.code != 0 {
		r.warnFailedKernel(later)
	}
	if failed == 0 {
		return
	}
	cause, fix := "", "check what each launch returns (cudaGetLastError)"
	code := r.failedWith[name]
	if text := launchErrors()[code]; text != "" {
		cause = fmt.Sprintf(" (%d %s)", code, text)
		fix += "; compile for this device and driver (nvcc -arch=native), or install a driver as new as the toolkit"
	} else if code != severalErrors {
		cause = fmt.Sprintf(" (%d)", code)
	}
	r.t.Warn("failed-launches", describeFailed(failed, "", cause), fix)
}

// describeFailed states how many launches failed; when is "later " or "", and cause is the error in brackets or "".
func describeFailed(n int, when, cause string) string {
	whose := "their kernels"
	if n == 1 {
		whose = "its kernel"
	}
	return analyze.Plural(n, when+"launch of a kernel", when+"launches of kernels") + " returned an error" + cause + ", and " + whose + " did not run"
}

// readRanges reads NVTX: push/pop ranges nest within their thread, start/end ranges may cross, marks have no length.
func (r *reader) readRanges(ctx context.Context, table string, c columns) error {
	kinds := map[int64]string{}
	var ids []string
	for id, name := range r.eventTypes {
		switch name {
		case nvtxMark, nvtxPushPop, nvtxStartEnd:
			kinds[id] = name
			ids = append(ids, fmt.Sprint(id))
		}
	}
	slices.Sort(ids)
	where := ""
	if c.hasAll("eventType") {
		where = " WHERE " + c.firstColumn("eventType") + " IN (" + joinColumns(ids) + ")"
	}
	sel := []string{c.firstColumn("eventType"), c.firstColumn("globalTid"), c.firstColumn("text"), c.firstColumn("textId")}
	return r.readEvents(ctx, table, c, where, sel, func(start, end int64, v []any) {
		// Exports without eventType contain ranges only.
		kind := nvtxPushPop
		if id, ok := parseInteger(v[0]); ok {
			kind = kinds[id]
		}
		h := model.Host{Start: start, End: end, Lane: r.laneOf(integerOrZero(v[1])), Kind: model.Annotation}
		if s := textOf(v[2]); s != "" {
			h.Name, h.Seq, h.Kind = r.names.parseRange(s)
		} else {
			h.Name = r.names.nameID(v[3], rangeName)
		}
		switch kind {
		case nvtxMark:
			h.Kind, h.End = model.Instant, start
			r.addHost(h)
		case nvtxStartEnd:
			if h.End < start {
				h.End = start - 1 // open; closeRanges sets its end
			}
			r.loose = append(r.loose, h)
		default:
			if h.End < start {
				h.End = start - 1
			}
			r.addHost(h)
		}
	})
}

// readOverhead reads the profiler's work, but not CUDA's own work in the table, such as loading a module.
func (r *reader) readOverhead(ctx context.Context, table string, c columns) error {
	own := map[int64]bool{}
	if e, ok := r.table[tOverheadTypes]; ok && e.hasAll("id", "label") {
		err := r.queryRows(ctx, "SELECT "+e.firstColumn("id")+", "+e.firstColumn("label")+" FROM "+r.quotedTable(tOverheadTypes), 2, func(v []any) {
			own[integerOrZero(v[0])] = strings.Contains(textOf(v[1]), "(CUDA)")
		})
		if err != nil {
			return err
		}
	}
	sel := []string{c.firstColumn("globalTid"), c.firstColumn("nameId"), c.firstColumn("overheadType")}
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		r.t.Inflated = r.t.Inflated || !own[integerOrZero(v[2])]
		r.loose = append(r.loose, model.Host{Start: start, End: r.clampEnd(start, end), Kind: model.Overhead,
			Lane: r.laneOf(integerOrZero(v[0])), Name: r.names.nameID(v[1], plainName)})
	})
}

func (r *reader) readThreads(ctx context.Context, table string, c columns) error {
	return r.queryRows(ctx, "SELECT "+c.firstColumn("globalTid")+", "+c.firstColumn("nameId")+" FROM "+r.quotedTable(table), 2, func(v []any) {
		global, ok := parseInteger(v[0])
		if lane, seen := r.lanes[global]; ok && seen {
			r.threadNames[lane] = r.names.requestString(v[1])
		}
	})
}

// readProcesses reads process names, for threads without a name.
func (r *reader) readProcesses(ctx context.Context, table string, c columns) error {
	return r.queryRows(ctx, "SELECT "+c.firstColumn("globalPid")+", "+c.firstColumn("name")+" FROM "+r.quotedTable(table), 2, func(v []any) {
		pid, _ := pidTid(integerOrZero(v[0]))
		r.processNames[pid] = cleanName(textOf(v[1]))
	})
}

func (r *reader) nameLanes() {
	for i := range r.t.Lanes {
		l := &r.t.Lanes[i]
		if id, ok := r.threadNames[uint32(i)]; ok {
			l.Name = r.names.found[id]
		}
		if l.Name == "" {
			l.Name = r.processNames[l.Process]
		}
	}
}
