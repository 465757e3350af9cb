package nsys

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// rocprofv3 of ROCm 7 writes rocpd databases. The names of the tables of one process end in the same UUID. A
// merged database has a set of tables for each process, and ids count within a set. The reader ignores the views that
// join the tables. Events contain their start and end (schema 3), or ids of rows of rocpd_timestamp and rocpd_track
// (later schemas). The schema is in source/share/rocprofiler-sdk-rocpd of ROCm/rocprofiler-sdk. An operation and the
// call that launched it have the same stack_id. Times are ns.

// The tables that are read, without their suffix.
const (
	pdString    = "rocpd_string"
	pdNode      = "rocpd_info_node"
	pdProcess   = "rocpd_info_process"
	pdThread    = "rocpd_info_thread"
	pdAgent     = "rocpd_info_agent"
	pdSymbol    = "rocpd_info_kernel_symbol"
	pdTrack     = "rocpd_track"
	pdTimestamp = "rocpd_timestamp"
	pdEvent     = "rocpd_event"
	pdRegion    = "rocpd_region"
	pdKernel    = "rocpd_kernel_dispatch"
	pdCopy      = "rocpd_memory_copy"
)

// rocprofCommand is the command that records all data that this package reads.
const rocprofCommand = "rocprofv3 --runtime-trace --output-format rocpd -- PROGRAM"

// rocpdTable splits a table name into one of the names above and the suffix.
func rocpdTable(name string) (base, suffix string, ok bool) {
	for _, base := range []string{pdString, pdNode, pdProcess, pdThread, pdAgent, pdSymbol, pdTrack, pdTimestamp, pdEvent, pdRegion, pdKernel, pdCopy} {
		if suffix, ok := strings.CutPrefix(name, base); ok && (suffix == "" || suffix[0] == '_') {
			return base, suffix, true
		}
	}
	return "", "", false
}

// processTables are the tables of one process, with the meaning of their ids.
type processTables struct {
	suffix  string
	strings map[int64]string
	symbols map[int64]string
	pids    map[int64]int64
	tids    map[int64]int64
	agents  map[int64]agent
}

type agent struct {
	gpu   bool
	index int64 // number of a GPU among the GPUs of the machine
}

// listRocpdParts returns the sets of tables that have events, sorted by suffix. It returns an error if no set has a
// known schema.
func (r *reader) listRocpdParts() ([]*processTables, error) {
	sets := map[string]*processTables{}
	for name, c := range r.table {
		base, suffix, ok := rocpdTable(name)
		if !ok || base != pdKernel && base != pdCopy && base != pdRegion {
			continue
		}
		spine := c.hasAll("start_id", "end_id") && r.table[pdTimestamp+suffix].hasAll("id", "value")
		if c.hasAll("start", "end") || spine {
			sets[suffix] = &processTables{suffix: suffix, strings: map[int64]string{}, symbols: map[int64]string{}, pids: map[int64]int64{},
				tids: map[int64]int64{}, agents: map[int64]agent{}}
		}
	}
	if len(sets) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is a rocpd database of a schema that is not known (no table %s, %s or %s with times)", r.path, pdKernel, pdCopy, pdRegion).
			WithFix("record with rocprofv3 of ROCm 7 (%s), or with torch.profiler (docs/analyze.md)", rocprofCommand)
	}
	return slices.SortedFunc(maps.Values(sets), func(a, b *processTables) int { return cmp.Compare(a.suffix, b.suffix) }), nil
}

func (r *reader) readRocpdTables(ctx context.Context) error {
	r.t.Format = model.Rocpd
	parts, err := r.listRocpdParts()
	if err != nil {
		return err
	}
	r.warnIncomplete("copy the file again")
	machines := map[string]bool{}
	for _, p := range parts {
		for _, step := range []struct {
			table string
			read  func(context.Context, *processTables, string, columns) error
		}{
			{pdNode, func(ctx context.Context, _ *processTables, table string, c columns) error {
				return r.queryRows(ctx, "SELECT "+c.firstColumn("machine_id", "hash")+" FROM "+table, 1, func(v []any) { machines[fmt.Sprint(v[0])] = true })
			}},
			{pdString, r.readRocpdNames(func(p *processTables) map[int64]string { return p.strings }, "string")},
			{pdSymbol, r.readRocpdNames(func(p *processTables) map[int64]string { return p.symbols }, "display_name", "kernel_name")},
			{pdProcess, r.readRocpdIDs(func(p *processTables) map[int64]int64 { return p.pids }, "pid")},
			{pdThread, r.readRocpdIDs(func(p *processTables) map[int64]int64 { return p.tids }, "tid")},
			{pdAgent, r.readRocpdAgents}, {pdRegion, r.readRocpdRegions}, {pdKernel, r.readRocpdKernels}, {pdCopy, r.readRocpdCopies},
		} {
			table := step.table + p.suffix
			read := func(cols columns) error { return step.read(ctx, p, quoteSQL(table, '"'), cols) }
			if err := r.readTable(ctx, table, "copy the file again", read); err != nil {
				return err
			}
		}
		// GPUs of different machines may have equal numbers.
		if len(machines) > 1 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the database holds recordings of several machines", r.path).WithFix("give the databases of the machines as they were before they were merged")
		}
	}
	return nil
}

// readRocpdNames returns a function that reads a table of texts by id. The text is the first non-empty one of the
// columns from.
func (r *reader) readRocpdNames(into func(*processTables) map[int64]string, from ...string) func(context.Context, *processTables, string, columns) error {
	return func(ctx context.Context, p *processTables, table string, c columns) error {
		sel := []string{c.firstColumn("id")}
		for _, name := range from {
			sel = append(sel, c.firstColumn(name))
		}
		m := into(p)
		return r.queryRows(ctx, "SELECT "+joinColumns(sel)+" FROM "+table, len(sel), func(v []any) {
			id, ok := parseInteger(v[0])
			if !ok || r.room.Over(r.usedBytes()) {
				return
			}
			for _, x := range v[1:] {
				if s := strings.TrimSuffix(cleanName(textOf(x)), ".kd"); s != "" {
					m[id] = s
					r.names.bytes += foundBytes + int64(len(s))
					return
				}
			}
		})
	}
}

// readRocpdIDs returns a function that reads the system's process or thread id of each row.
func (r *reader) readRocpdIDs(into func(*processTables) map[int64]int64, name string) func(context.Context, *processTables, string, columns) error {
	return func(ctx context.Context, p *processTables, table string, c columns) error {
		m := into(p)
		return r.queryRows(ctx, "SELECT "+c.firstColumn("id")+", "+c.firstColumn(name)+" FROM "+table, 2, func(v []any) {
			id, ok1 := parseInteger(v[0])
			n, ok2 := parseInteger(v[1])
			if ok1 && ok2 && !r.room.Over(r.usedBytes()) {
				m[id] = n
				r.names.bytes += foundBytes
			}
		})
	}
}

// readRocpdAgents reads processors. A GPU gets its number among the GPUs.
func (r *reader) readRocpdAgents(ctx context.Context, p *processTables, table string, c columns) error {
	sel := []string{c.firstColumn("id"), c.firstColumn("type"), c.firstColumn("type_index", "logical_index"), c.firstColumn("product_name"), c.firstColumn("model_name"), c.firstColumn("name"), c.firstColumn("extdata")}
	return r.queryRows(ctx, "SELECT "+joinColumns(sel)+" FROM "+table, len(sel), func(v []any) {
		id, ok := parseInteger(v[0])
		if !ok || len(p.agents) >= maxDevices {
			return
		}
		a := agent{gpu: textOf(v[1]) == "GPU", index: id}
		if n, ok := parseInteger(v[2]); ok {
			a.index = n
		}
		p.agents[id] = a
		if !a.gpu {
			return
		}
		var more struct {
			CUs int `json:"cu_count"`
		}
		d := r.described[a.index]
		if err := json.Unmarshal([]byte(textOf(v[6])), &more); err == nil && more.CUs > 0 && more.CUs < 1<<20 {
			d.SMs = more.CUs
		}
		d.Name = cmp.Or(cleanName(textOf(v[3])), cleanName(textOf(v[4])), cleanName(textOf(v[5])), d.Name)
		r.described[a.index] = d
	})
}
