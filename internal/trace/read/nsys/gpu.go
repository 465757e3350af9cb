package nsys

import (
	"context"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// commonColumns are the columns of every device operation, in order.
func commonColumns(c columns) []string {
	return []string{c.firstColumn("deviceId"), c.firstColumn("streamId"), c.firstColumn("correlationId"), c.firstColumn("globalPid")}
}

const nCommon = 4

// newOperation makes a device operation from the values of commonColumns.
func (r *reader) newOperation(kind model.Kind, start, end int64, v []any) model.GPU {
	pid := int32(-1) // unknown: Finish searches the calls of all processes
	if g, ok := parseInteger(v[3]); ok && g != 0 {
		pid, _ = pidTid(g)
	} else {
		r.noProcess++
	}
	return model.GPU{Start: start, End: end, Kind: kind, Launch: -1,
		Device: r.deviceIndex(int64(pid), integerOrZero(v[0])), Stream: integerOrZero(v[1]), Corr: integerOrZero(v[2]), Process: pid}
}

// productSQL multiplies three columns in SQL. The product is NULL if a column is missing.
func productSQL(c columns, x, y, z string) string {
	return c.firstColumn(x) + "*" + c.firstColumn(y) + "*" + c.firstColumn(z)
}

// graphSQL is the SQL condition that a graph launch started the operation.
func graphSQL(c columns) string {
	return "COALESCE(" + c.firstColumn("graphNodeId") + ",0)<>0 OR COALESCE(" + c.firstColumn("graphId") + ",0)<>0"
}

func maxResources(a, b model.KernelResources) model.KernelResources {
	return model.KernelResources{Registers: max(a.Registers, b.Registers), SharedBytes: max(a.SharedBytes, b.SharedBytes), LocalBytes: max(a.LocalBytes, b.LocalBytes)}
}

func (r *reader) readKernels(ctx context.Context, table string, c columns) error {
	sel := append(commonColumns(c), "COALESCE("+c.firstColumn("demangledName", "name")+","+c.firstColumn("shortName")+","+c.firstColumn("mangledName")+")",
		productSQL(c, "gridX", "gridY", "gridZ"), productSQL(c, "blockX", "blockY", "blockZ"), graphSQL(c), c.firstColumn("registersPerThread"),
		"COALESCE("+c.firstColumn("staticSharedMemory")+",0)+COALESCE("+c.firstColumn("dynamicSharedMemory")+",0)", c.firstColumn("localMemoryPerThread"))
	r.t.Resources = map[model.NameID]model.KernelResources{}
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.newOperation(model.Kernel, start, end, v)
		g.Name = r.names.nameID(v[nCommon], kernelName)
		g.Blocks = max(0, integerOrZero(v[nCommon+1]))
		g.Threads = int32(max(0, min(integerOrZero(v[nCommon+2]), math.MaxInt32)))
		g.Graph = integerOrZero(v[nCommon+3]) != 0
		was := r.t.Resources[g.Name]
		if now := maxResources(was, model.KernelResources{Registers: integerOrZero(v[nCommon+4]), SharedBytes: integerOrZero(v[nCommon+5]), LocalBytes: integerOrZero(v[nCommon+6])}); now != was {
			r.t.Resources[g.Name] = now
		}
		r.addGPU(g)
	})
}

func (r *reader) readCopies(ctx context.Context, table string, c columns) error {
	sel := append(commonColumns(c), c.firstColumn("bytes"), c.firstColumn("copyKind"), c.firstColumn("srcKind"), c.firstColumn("dstKind"),
		c.firstColumn("srcDeviceId"), c.firstColumn("dstDeviceId"), graphSQL(c))
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.newOperation(model.Memcpy, start, end, v)
		v = v[nCommon:]
		g.Bytes = max(0, integerOrZero(v[0]))
		kind := r.copyKinds[integerOrZero(v[1])]
		src, dst := r.memKind(v[2]), r.memKind(v[3])
		g.Dir = directionOf(kind)
		from, okFrom := parseInteger(v[4])
		to, okTo := parseInteger(v[5])
		if g.Dir == model.D2D && okFrom && okTo && from != to {
			g.Dir = model.P2P
		}
		switch g.Dir {
		case model.H2D:
			g.Memory = hostMemory(src)
		case model.D2H:
			g.Memory = hostMemory(dst)
		case model.H2H:
			if g.Memory = hostMemory(src); hostMemory(dst) == model.Pageable {
				g.Memory = model.Pageable // the slower memory decides
			}
		}
		g.Graph = integerOrZero(v[6]) != 0
		name := analyze.CopyText(g.Dir, titleCase(src), titleCase(dst))
		if strings.HasPrefix(kind, unifiedCopy) {
			g.Memory, g.Stream, name = model.Migrated, migrationStream, analyze.CopyText(g.Dir, "", "")+" (unified memory)"
		}
		g.Name = r.names.internText(name)
		r.addGPU(g)
	})
}

const (
	// unifiedCopy begins the names of copies of unified memory pages.
	unifiedCopy = "UVM_"
	// migrationStream is the stream of these copies, which run outside the program's streams.
	migrationStream = -1
)

// readDeviceFaults counts page faults of unified memory on devices; a row is a group of faults.
func (r *reader) readDeviceFaults(ctx context.Context, table string, c columns) error {
	return r.readFaults(ctx, table, c, c.firstColumn("numberOfPageFaults"), &r.t.Faults.Device)
}

// readHostFaults counts page faults of unified memory on the host; a row is one fault.
func (r *reader) readHostFaults(ctx context.Context, table string, c columns) error {
	return r.readFaults(ctx, table, c, "1", &r.t.Faults.Host)
}

func (r *reader) readFaults(ctx context.Context, table string, c columns, count string, sum *int64) error {
	if !c.hasAll("start") {
		return nil
	}
	return r.queryRows(ctx, "SELECT "+c.firstColumn("start")+", "+count+" FROM "+r.quotedTable(table), 2, func(v []any) {
		if at, ok := parseInteger(v[0]); ok && r.isKept(at) {
			*sum += max(1, integerOrZero(v[1]))
		}
	})
}

// memKind returns the name of a kind of memory, "" if not recorded.
func (r *reader) memKind(v any) string {
	if n, ok := parseInteger(v); ok {
		return r.memKinds[n]
	}
	return ""
}

func (r *reader) readFills(ctx context.Context, table string, c columns) error {
	sel := append(commonColumns(c), c.firstColumn("bytes"), c.firstColumn("memKind"), graphSQL(c))
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.newOperation(model.Memset, start, end, v)
		v = v[nCommon:]
		g.Bytes = max(0, integerOrZero(v[0]))
		name := "Memset"
		if kind := r.memKind(v[1]); kind != "" {
			name += " (" + titleCase(kind) + ")"
		}
		g.Name, g.Graph = r.names.internText(name), integerOrZero(v[2]) != 0
		r.addGPU(g)
	})
}

// readGraphLaunches reads graphs that were traced as a whole (--cuda-graph-trace=graph): one row per launch, without
// its kernels.
func (r *reader) readGraphLaunches(ctx context.Context, table string, c columns) error {
	name := r.names.internText(analyze.WholeGraph)
	n := 0
	err := r.readEvents(ctx, table, c, "", commonColumns(c), func(start, end int64, v []any) {
		g := r.newOperation(model.Kernel, start, end, v)
		g.Name, g.Graph = name, true
		n++
		r.addGPU(g)
	})
	if n > 0 {
		r.t.Warn("graphs-as-a-whole", "CUDA graphs were recorded as one operation each, so the kernels inside them are unknown", "record with --cuda-graph-trace=node to see them")
	}
	return err
}

// readMemory reads allocations and releases on devices.
func (r *reader) readMemory(ctx context.Context, table string, c columns) error {
	if !c.hasAll("start", "bytes", "memoryOperationType") {
		return nil
	}
	release := map[int64]bool{1: true}
	if e, ok := r.table[tMemOps]; ok && e.hasAll("id", "name") {
		m := map[int64]string{}
		if err := r.readEnum(func() map[int64]string { return m }, func(s string) string { return s })(ctx, tMemOps, e); err != nil {
			return err
		}
		for id, name := range m {
			release[id] = hasSuffixFold(name, "DEALLOCATION")
		}
	}
	sel := []string{c.firstColumn("start"), c.firstColumn("bytes"), c.firstColumn("memoryOperationType"), c.firstColumn("globalPid"), c.firstColumn("deviceId"), c.firstColumn("memKind")}
	q := "SELECT " + joinColumns(sel) + " FROM " + r.quotedTable(table)
	return r.queryRows(ctx, q, len(sel), func(v []any) {
		r.t.Events++
		at, ok := parseInteger(v[0])
		if !ok {
			r.backwards++
			return
		}
		if !r.isKept(at) {
			return
		}
		global := integerOrZero(v[3])
		pid, _ := pidTid(global)
		e := model.MemoryEvent{At: at, Bytes: max(0, integerOrZero(v[1])), Allocated: -1, Reserved: -1, Device: -1, Lane: r.processLane(global)}
		if release[integerOrZero(v[2])] {
			e.Bytes = -e.Bytes
		}
		if kind := r.memKind(v[5]); kind != "PAGEABLE" && kind != "PINNED" {
			e.Device = r.t.Devices[r.deviceIndex(int64(pid), integerOrZero(v[4]))].ID
		}
		r.t.Memory = append(r.t.Memory, e)
	})
}

// processLane returns the first lane seen of a process, or else the lane of its main thread.
func (r *reader) processLane(globalPid int64) uint32 {
	pid, _ := pidTid(globalPid)
	if i, ok := r.firstLane[pid]; ok {
		return i
	}
	return r.laneOf(globalPid&^0xffffff | int64(pid))
}
