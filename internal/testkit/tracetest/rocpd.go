package tracetest

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// rocpdSchema has the tables of a rocprofv3 recording, after source/share/rocprofiler-sdk-rocpd of
// ROCm/rocprofiler-sdk, without tables and columns that gpuprof does not read. SUFFIX is the UUID of the process. PLACE
// and TIMES are the columns in which the two layouts differ.
const rocpdSchema = `
CREATE TABLE "rocpd_metadataSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, tag TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE "rocpd_stringSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, guid TEXT, string TEXT NOT NULL UNIQUE);
CREATE TABLE "rocpd_info_nodeSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, guid TEXT, hash BIGINT NOT NULL, machine_id TEXT NOT NULL);
CREATE TABLE "rocpd_info_processSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, command TEXT);
CREATE TABLE "rocpd_info_threadSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER NOT NULL, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT);
CREATE TABLE "rocpd_info_agentSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER NOT NULL, pid INTEGER NOT NULL, type TEXT, absolute_index INTEGER, logical_index INTEGER,
	type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT, product_name TEXT, extdata JSONB DEFAULT '{}' NOT NULL);
CREATE TABLE "rocpd_info_kernel_symbolSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER, pid INTEGER, kernel_name TEXT, display_name TEXT);
CREATE TABLE "rocpd_eventSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB DEFAULT '{}' NOT NULL);
CREATE TABLE "rocpd_trackSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER NOT NULL, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER);
CREATE TABLE "rocpd_timestampSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, value BIGINT NOT NULL, phase INTEGER, track_id INTEGER);
CREATE TABLE "rocpd_regionSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, PLACE, TIMES, name_id INTEGER NOT NULL, event_id INTEGER);
CREATE TABLE "rocpd_kernel_dispatchSUFFIX" (id INTEGER NOT NULL PRIMARY KEY, PLACE, TIMES, kernel_id INTEGER NOT NULL, dispatch_id INTEGER NOT NULL,
	workgroup_size_x INTEGER NOT NULL, workgroup_size_y INTEGER NOT NULL, workgroup_size_z INTEGER NOT NULL,
	grid_size_x INTEGER NOT NULL, grid_size_y INTEGER NOT NULL, grid_size_z INTEGER NOT NULL, event_id INTEGER);
CREATE TABLE "rocpd_memory_copySUFFIX" (id INTEGER NOT NULL PRIMARY KEY, PLACE, TIMES, name_id INTEGER NOT NULL, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER NOT NULL, event_id INTEGER);
INSERT INTO "rocpd_metadataSUFFIX" (tag, value) VALUES ('schema_version', '3');
INSERT INTO "rocpd_info_nodeSUFFIX" VALUES (1, '', 77, 'machine');
INSERT INTO "rocpd_info_agentSUFFIX" (id, nid, pid, type, absolute_index, logical_index, type_index, name, product_name) VALUES (0, 1, 1, 'CPU', 0, 0, 0, 'EPYC', 'EPYC');`

// rocpdWriter writes one process of a recording.
type rocpdWriter struct {
	tx     *sql.Tx
	suffix string
	spine  bool // the later layout: timestamps and tracks are in tables of their own
	ids    map[string]int
	n      int // the last row ID that was given out
	err    error
}

func (w *rocpdWriter) exec(q string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.Exec(strings.ReplaceAll(q, "SUFFIX", w.suffix), args...)
	}
}

// once returns the ID of the row with a key. The first call for a key inserts the row by statement q.
func (w *rocpdWriter) once(key, q string, args ...any) int {
	if id, ok := w.ids[key]; ok {
		return id
	}
	w.n++
	w.ids[key] = w.n
	w.exec(q, append([]any{w.n}, args...)...)
	return w.n
}

func (w *rocpdWriter) text(s string) int {
	return w.once("string "+s, `INSERT INTO "rocpd_stringSUFFIX" (id, string) VALUES (?, ?)`, s)
}

// row inserts an event and its row in table. own names the columns that only this table has, and values are their
// values. place has the process, thread, agent, stream and queue IDs.
func (w *rocpdWriter) row(table, category, extdata string, start, end, stack int64, place [5]any, own string, values ...any) {
	w.n++
	event := w.n
	w.exec(`INSERT INTO "rocpd_eventSUFFIX" (id, category_id, stack_id, extdata) VALUES (?, ?, ?, ?)`, event, w.text(category), stack, extdata)
	columns, head := "pid, tid, agent_id, stream_id, queue_id, start, end", append(place[:], start, end)
	if w.spine {
		track := w.once(fmt.Sprint("track ", place), `INSERT INTO "rocpd_trackSUFFIX" (id, nid, pid, tid, agent_id, stream_id, queue_id) VALUES (?, 1, ?, ?, ?, ?, ?)`, place[:]...)
		columns, head = "track_id, start_id, end_id", []any{track, event*2 + 1, event*2 + 2}
		w.exec(`INSERT INTO "rocpd_timestampSUFFIX" VALUES (?, ?, 1, NULL), (?, ?, 2, NULL)`, event*2+1, start, event*2+2, end)
	}
	values = append(append(head, event), values...)
	w.exec(`INSERT INTO "`+table+`SUFFIX" (`+columns+`, event_id, `+own+`) VALUES (?`+strings.Repeat(", ?", len(values)-1)+`)`, values...)
}

// Rocpd writes a trace into the SQLite file path as rocprofv3 would have recorded it, in tables with a suffix. It
// creates a missing file; calls with further suffixes add to it, as in a merged recording. API calls are renamed from
// cuda to hip; operators and annotations become ROCTx ranges. spine selects the later layout, with tables for
// timestamps and tracks.
func Rocpd(path string, tr *model.Trace, suffix string, spine bool) error {
	// No journal: nothing else reads the file meanwhile, and after a crash it is written again.
	db, err := sql.Open("sqlite", path+"?_pragma=synchronous(0)&_pragma=journal_mode(off)")
	if err != nil {
		return err
	}
	return errors.Join(rocpd(db, tr, suffix, spine), db.Close())
}

func rocpd(db *sql.DB, tr *model.Trace, suffix string, spine bool) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	w := &rocpdWriter{tx: tx, suffix: suffix, spine: spine, ids: map[string]int{}, n: 100}
	place, times := "nid INTEGER, pid INTEGER NOT NULL, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER", "start BIGINT NOT NULL, end BIGINT NOT NULL"
	if spine {
		place, times = "track_id INTEGER NOT NULL", "start_id INTEGER NOT NULL, end_id INTEGER NOT NULL"
	}
	w.exec(strings.NewReplacer("PLACE", place, "TIMES", times).Replace(rocpdSchema))
	for i, d := range tr.Devices {
		w.exec(`INSERT INTO "rocpd_info_agentSUFFIX" (id, nid, pid, type, absolute_index, logical_index, type_index, name, product_name, extdata) VALUES (?, 1, 1, 'GPU', ?, ?, ?, 'gfx942', ?, ?)`,
			i+1, i+1, i+1, d.ID, d.Name, fmt.Sprintf(`{"cu_count": %d}`, d.SMs))
	}
	process := func(pid int32) int {
		return w.once(fmt.Sprint("process ", pid), `INSERT INTO "rocpd_info_processSUFFIX" (id, nid, pid) VALUES (?, 1, ?)`, pid)
	}
	for i := range tr.Host {
		h := &tr.Host[i]
		lane := tr.Lanes[h.Lane]
		pid := process(lane.Process)
		at := [5]any{pid, w.once(fmt.Sprint("thread ", lane.Thread), `INSERT INTO "rocpd_info_threadSUFFIX" (id, nid, pid, tid) VALUES (?, 1, ?, ?)`, pid, lane.Thread)}
		name := tr.Name(h.Name)
		if h.Kind == model.API {
			name = strings.Replace(name, "cuda", "hip", 1)
			w.row("rocpd_region", "HIP_RUNTIME_API", "{}", h.Start, h.End, h.Corr, at, "name_id", w.text(name))
			continue
		}
		if h.Kind == model.Op && h.Seq > 0 {
			name += fmt.Sprintf(", seq = %d", h.Seq-1)
		}
		extdata, err := json.Marshal(map[string]string{"message": name})
		if err != nil {
			return err
		}
		w.row("rocpd_region", "MARKER_CORE_RANGE_API", string(extdata), h.Start, h.End, 1<<40+int64(i), at, "name_id", w.text("roctxThreadRangeA"))
	}
	for i := range tr.GPU {
		g := &tr.GPU[i]
		at := [5]any{process(g.Process), nil, int(g.Device) + 1, g.Stream, 1}
		if g.Kind == model.Memcpy {
			direction := map[model.Direction]string{model.H2D: "HOST_TO_DEVICE", model.D2H: "DEVICE_TO_HOST", model.D2D: "DEVICE_TO_DEVICE", model.P2P: "DEVICE_TO_DEVICE", model.H2H: "HOST_TO_HOST"}[g.Dir]
			to, from := int(g.Device)+1, int(g.Device)+1
			switch g.Dir {
			case model.H2D:
				from = 0
			case model.D2H:
				to = 0
			case model.P2P:
				from = 1 + (int(g.Device)+1)%len(tr.Devices)
			}
			at[2], at[4] = nil, nil
			w.row("rocpd_memory_copy", "MEMORY_COPY", "{}", g.Start, g.End, g.Corr, at, "name_id, dst_agent_id, src_agent_id, size", w.text("MEMORY_COPY_"+direction), to, from, g.Bytes)
			continue
		}
		name := tr.Name(g.Name)
		symbol := w.once("symbol "+name, `INSERT INTO "rocpd_info_kernel_symbolSUFFIX" (id, kernel_name, display_name) VALUES (?, ?, ?)`, "_Z"+name+".kd", name)
		w.row("rocpd_kernel_dispatch", "KERNEL_DISPATCH", "{}", g.Start, g.End, g.Corr, at,
			"kernel_id, dispatch_id, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z",
			symbol, i, g.Threads, 1, 1, g.Blocks*int64(g.Threads), 1, 1)
	}
	if w.err != nil {
		return w.err
	}
	return tx.Commit()
}
