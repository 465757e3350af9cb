package nsys

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// cudaDevices reads which GPU a program means by its device number: with
// CUDA_VISIBLE_DEVICES every rank calls its own device 0.
func (r *reader) cudaDevices(ctx context.Context, table string, c columns) error {
	sel := []string{c.column("gpuId"), c.column("cudaId"), c.column("pid"), c.column("numMultiprocessors")}
	return r.query(ctx, "SELECT "+join(sel)+" FROM "+r.from(table), len(sel), func(v []any) {
		gpu, ok1 := integer(v[0])
		id, ok2 := integer(v[1])
		if !ok1 || !ok2 {
			return
		}
		pid := whole(v[2]) // 0 where the version does not say
		r.gpuOf[cudaDevice{pid, id}] = gpu
		if sms := whole(v[3]); sms > 0 {
			d := r.known[gpu]
			d.SMs = int(sms)
			r.known[gpu] = d
		}
	})
}

// gpus reads what the GPUs are; the columns' names changed in 2021.
func (r *reader) gpus(ctx context.Context, table string, c columns) error {
	sel := []string{c.column("id", "gpuId", "deviceId"), c.column("name"), c.column("computeMajor", "computeCapabilityMajor"),
		c.column("computeMinor", "computeCapabilityMinor"), c.column("smCount", "numMultiprocessors"),
		c.column("totalMemory", "globalMemorySize", "totalGlobalMem"), c.column("memoryBandwidth", "globalMemoryBandwidth")}
	return r.query(ctx, "SELECT "+join(sel)+" FROM "+r.from(table), len(sel), func(v []any) {
		id, ok := integer(v[0])
		if !ok {
			return
		}
		d := r.known[id]
		if s := clean(text(v[1])); s != "" {
			d.Name = s
		}
		set := func(to *int, v any) {
			if n := whole(v); n > 0 && n < 1<<20 {
				*to = int(n)
			}
		}
		set(&d.Major, v[2])
		if d.Major > 0 {
			set(&d.Minor, v[3])
		}
		set(&d.SMs, v[4])
		if n := whole(v[5]); n > 0 {
			d.TotalBytes = n
		}
		if n := whole(v[6]); n > 0 {
			d.PeakBytesPerS = float64(n)
			// CUPTI counts kilobytes a second, later versions bytes; no GPU
			// that CUDA runs on has less than 10 GB/s or more than 10 PB/s.
			if d.PeakBytesPerS < 1e10 {
				d.PeakBytesPerS *= 1000
			}
		}
		r.known[id] = d
	})
}

// maxDevices is what GPU.Device can tell apart.
const maxDevices = 1 << 16

// device is the index of a GPU by the number a process has for it.
func (r *reader) device(pid, id int64) uint16 {
	gpu, ok := r.gpuOf[cudaDevice{pid, id}]
	if !ok {
		if gpu, ok = r.gpuOf[cudaDevice{0, id}]; !ok {
			gpu = id
		}
	}
	if i, ok := r.devices[gpu]; ok {
		return i
	}
	if len(r.t.Devices) == maxDevices {
		return maxDevices - 1
	}
	i := uint16(len(r.t.Devices))
	r.devices[gpu] = i
	d := r.known[gpu]
	d.ID = int(gpu)
	r.t.Devices = append(r.t.Devices, d)
	return i
}

// sortDevices puts the devices in the order of their numbers, whichever was
// used first.
func (r *reader) sortDevices() {
	old := r.t.Devices
	order := make([]int, len(old))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(old[a].ID, old[b].ID) })
	sorted, at := make([]model.Device, len(old)), make([]uint16, len(old))
	for to, from := range order {
		sorted[to], at[from] = old[from], uint16(to)
	}
	r.t.Devices = sorted
	for i := range r.t.GPU {
		r.t.GPU[i].Device = at[r.t.GPU[i].Device]
	}
}

// maxDiagnostics is how many of nsys' own messages are passed on.
const maxDiagnostics = 8

// diagnostics passes on what nsys itself warned of: lost events above all.
func (r *reader) diagnostics(ctx context.Context, table string, c columns) error {
	serious := map[int64]bool{2: true, 3: true}
	if e, ok := r.table[tSeverities]; ok && e.has("id", "name") {
		m := map[int64]string{}
		if err := r.enum(func() map[int64]string { return m }, strings.ToLower)(ctx, tSeverities, e); err != nil {
			return err
		}
		for id, name := range m {
			serious[id] = strings.Contains(name, "warning") || strings.Contains(name, "error")
		}
	}
	seen, more := map[string]bool{}, 0
	err := r.query(ctx, "SELECT "+c.column("severity")+", "+c.column("text")+" FROM "+r.from(table), 2, func(v []any) {
		s := strings.Join(strings.Fields(clean(text(v[1]))), " ")
		lost := lostEvents(s)
		if s == "" || seen[s] || !lost && !serious[whole(v[0])] {
			return
		}
		if len(seen) >= maxDiagnostics && !lost {
			more++
			return
		}
		if len(seen) >= 4*maxDiagnostics {
			more++
			return
		}
		seen[s] = true
		code := "nsys"
		if lost {
			code = "dropped-events"
		}
		if n := []rune(s); len(n) > 400 {
			s = string(n[:399]) + "…"
		}
		r.t.Warn(code, "Nsight Systems reported: "+s, "")
	})
	if more > 0 {
		r.t.Warn("nsys", fmt.Sprintf("Nsight Systems reported %d further warnings", more), "see its Diagnostics Summary")
	}
	return err
}

// lostEvents reports whether a message says that events are missing.
func lostEvents(s string) bool {
	s = strings.ToLower(s)
	for _, word := range []string{"dropped", "lost", "discarded", "missing events", "buffer overflow", "incomplete"} {
		if strings.Contains(s, word) {
			return !strings.Contains(s, "0 events were lost") && !strings.Contains(s, "no events")
		}
	}
	return false
}
