package nsys

import (
	"context"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// common are the columns that every device operation has, in this order.
func common(c columns) []string {
	return []string{c.column("deviceId"), c.column("streamId"), c.column("correlationId"), c.column("globalPid")}
}

const nCommon = 4

// operation fills in what common selects.
func (r *reader) operation(kind model.Kind, start, end int64, v []any) model.GPU {
	pid := int32(-1) // Finish looks in every process
	if g, ok := integer(v[3]); ok && g != 0 {
		pid, _ = pidTid(g)
	} else {
		r.noProcess++
	}
	return model.GPU{Start: start, End: end, Kind: kind, Launch: -1,
		Device: r.device(int64(pid), whole(v[0])), Stream: whole(v[1]), Corr: whole(v[2]), Process: pid}
}

// product multiplies columns in SQL; absent ones make it NULL.
func product(c columns, x, y, z string) string {
	return c.column(x) + "*" + c.column(y) + "*" + c.column(z)
}

// node says whether an operation was part of a graph launch.
func node(c columns) string {
	return "COALESCE(" + c.column("graphNodeId") + ",0)<>0 OR COALESCE(" + c.column("graphId") + ",0)<>0"
}

func (r *reader) kernels(ctx context.Context, table string, c columns) error {
	sel := append(common(c), "COALESCE("+c.column("demangledName", "name")+","+c.column("shortName")+","+c.column("mangledName")+")",
		product(c, "gridX", "gridY", "gridZ"), product(c, "blockX", "blockY", "blockZ"), node(c))
	return r.events(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.operation(model.Kernel, start, end, v)
		g.Name = r.names.of(v[nCommon], kernelName)
		g.Blocks = max(0, whole(v[nCommon+1]))
		g.Threads = int32(max(0, min(whole(v[nCommon+2]), math.MaxInt32)))
		g.Graph = whole(v[nCommon+3]) != 0
		r.addGPU(g)
	})
}

func (r *reader) copies(ctx context.Context, table string, c columns) error {
	sel := append(common(c), c.column("bytes"), c.column("copyKind"), c.column("srcKind"), c.column("dstKind"),
		c.column("srcDeviceId"), c.column("dstDeviceId"), node(c))
	return r.events(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.operation(model.Memcpy, start, end, v)
		v = v[nCommon:]
		g.Bytes = max(0, whole(v[0]))
		kind := r.copyKinds[whole(v[1])]
		src, dst := r.memKind(v[2]), r.memKind(v[3])
		g.Dir = direction(kind)
		from, okFrom := integer(v[4])
		to, okTo := integer(v[5])
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
				g.Memory = model.Pageable // the slower end decides
			}
		}
		g.Graph = whole(v[6]) != 0
		name := analyze.CopyText(g.Dir, title(src), title(dst))
		if strings.HasPrefix(kind, unifiedCopy) {
			g.Memory, g.Stream, name = model.Migrated, migrationStream, analyze.CopyText(g.Dir, "", "")+" (unified memory)"
		}
		g.Name = r.names.text(name)
		r.addGPU(g)
	})
}

const (
	// unifiedCopy begins the kinds of copies that the driver makes of pages of unified memory.
	unifiedCopy = "UVM_"
	// migrationStream is their stream: the driver makes them beside the streams of the program.
	migrationStream = -1
)

// deviceFaults counts the page faults of unified memory on devices: a row is a group of them.
func (r *reader) deviceFaults(ctx context.Context, table string, c columns) error {
	return r.faults(ctx, table, c, c.column("numberOfPageFaults"), &r.t.Faults.Device)
}

// hostFaults counts the page faults of unified memory on the host: a row is one.
func (r *reader) hostFaults(ctx context.Context, table string, c columns) error {
	return r.faults(ctx, table, c, "1", &r.t.Faults.Host)
}

func (r *reader) faults(ctx context.Context, table string, c columns, count string, sum *int64) error {
	if !c.has("start") {
		return nil
	}
	return r.query(ctx, "SELECT "+c.column("start")+", "+count+" FROM "+r.from(table), 2, func(v []any) {
		if at, ok := integer(v[0]); ok && r.keeps(at) {
			*sum += max(1, whole(v[1]))
		}
	})
}

// memKind is the name of a kind of memory, "" when it is not recorded.
func (r *reader) memKind(v any) string {
	if n, ok := integer(v); ok {
		return r.memKinds[n]
	}
	return ""
}

func (r *reader) fills(ctx context.Context, table string, c columns) error {
	sel := append(common(c), c.column("bytes"), c.column("memKind"), node(c))
	return r.events(ctx, table, c, "", sel, func(start, end int64, v []any) {
		g := r.operation(model.Memset, start, end, v)
		v = v[nCommon:]
		g.Bytes = max(0, whole(v[0]))
		name := "Memset"
		if kind := r.memKind(v[1]); kind != "" {
			name += " (" + title(kind) + ")"
		}
		g.Name, g.Graph = r.names.text(name), whole(v[2]) != 0
		r.addGPU(g)
	})
}

// graphLaunches reads graphs that were traced as a whole
// (--cuda-graph-trace=graph): one row a launch, its kernels unseen.
func (r *reader) graphLaunches(ctx context.Context, table string, c columns) error {
	name := r.names.text("CUDA graph")
	n := 0
	err := r.events(ctx, table, c, "", common(c), func(start, end int64, v []any) {
		g := r.operation(model.Kernel, start, end, v)
		g.Name, g.Graph = name, true
		n++
		r.addGPU(g)
	})
	if n > 0 {
		r.t.Warn("graphs-as-a-whole", "CUDA graphs were recorded as one operation each, so the kernels inside them are unknown", "record with --cuda-graph-trace=node to see them")
	}
	return err
}

// memory reads allocations and releases on the device.
func (r *reader) memory(ctx context.Context, table string, c columns) error {
	if !c.has("start", "bytes", "memoryOperationType") {
		return nil
	}
	release := map[int64]bool{1: true}
	if e, ok := r.table[tMemOps]; ok && e.has("id", "name") {
		m := map[int64]string{}
		if err := r.enum(func() map[int64]string { return m }, func(s string) string { return s })(ctx, tMemOps, e); err != nil {
			return err
		}
		for id, name := range m {
			release[id] = hasSuffixFold(name, "DEALLOCATION")
		}
	}
	sel := []string{c.column("start"), c.column("bytes"), c.column("memoryOperationType"), c.column("globalPid"), c.column("deviceId"), c.column("memKind")}
	q := "SELECT " + join(sel) + " FROM " + r.from(table)
	return r.query(ctx, q, len(sel), func(v []any) {
		r.t.Events++
		at, ok := integer(v[0])
		if !ok {
			r.backwards++
			return
		}
		if !r.keeps(at) {
			return
		}
		global := whole(v[3])
		pid, _ := pidTid(global)
		e := model.MemoryEvent{At: at, Bytes: max(0, whole(v[1])), Allocated: -1, Reserved: -1, Device: -1, Lane: r.processLane(global)}
		if release[whole(v[2])] {
			e.Bytes = -e.Bytes
		}
		if kind := r.memKind(v[5]); kind != "PAGEABLE" && kind != "PINNED" {
			e.Device = r.t.Devices[r.device(int64(pid), whole(v[4]))].ID
		}
		r.t.Memory = append(r.t.Memory, e)
	})
}

// processLane is a thread of the process: its first one seen, else its main one.
func (r *reader) processLane(globalPid int64) uint32 {
	pid, _ := pidTid(globalPid)
	if i, ok := r.firstLane[pid]; ok {
		return i
	}
	return r.lane(globalPid&^0xffffff | int64(pid))
}
