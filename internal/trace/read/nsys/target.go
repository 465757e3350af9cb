package nsys

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// readCUDADevices maps device numbers within a process to GPUs: under CUDA_VISIBLE_DEVICES, every rank has a device
// 0.
func (r *reader) readCUDADevices(ctx context.Context, table string, c columns) error {
	sel := []string{c.firstColumn("gpuId"), c.firstColumn("cudaId"), c.firstColumn("pid"), c.firstColumn("numMultiprocessors")}
	return r.queryRows(ctx, "SELECT "+joinColumns(sel)+" FROM "+r.quotedTable(table), len(sel), func(v []any) {
		gpu, ok1 := parseInteger(v[0])
		id, ok2 := parseInteger(v[1])
		if !ok1 || !ok2 {
			return
		}
		pid := integerOrZero(v[2]) // 0 in old versions
		r.gpuOf[cudaDevice{pid, id}] = gpu
		if sms := integerOrZero(v[3]); sms > 0 {
			d := r.described[gpu]
			d.SMs = int(sms)
			r.described[gpu] = d
		}
	})
}

// readGPUs reads the properties of GPUs; column names changed in 2021.
func (r *reader) readGPUs(ctx context.Context, table string, c columns) error {
	sel := []string{c.firstColumn("id", "gpuId", "deviceId"), c.firstColumn("name"), c.firstColumn("computeMajor", "computeCapabilityMajor"),
		c.firstColumn("computeMinor", "computeCapabilityMinor"), c.firstColumn("smCount", "numMultiprocessors"),
		c.firstColumn("totalMemory", "globalMemorySize", "totalGlobalMem"), c.firstColumn("memoryBandwidth", "globalMemoryBandwidth")}
	return r.queryRows(ctx, "SELECT "+joinColumns(sel)+" FROM "+r.quotedTable(table), len(sel), func(v []any) {
		id, ok := parseInteger(v[0])
		if !ok {
			return
		}
		d := r.described[id]
		if s := cleanName(textOf(v[1])); s != "" {
			d.Name = s
		}
		set := func(to *int, v any) {
			if n := integerOrZero(v); n > 0 && n < 1<<20 {
				*to = int(n)
			}
		}
		set(&d.Major, v[2])
		if d.Major > 0 {
			set(&d.Minor, v[3])
		}
		set(&d.SMs, v[4])
		if n := integerOrZero(v[5]); n > 0 {
			d.TotalBytes = n
		}
		if n := integerOrZero(v[6]); n > 0 {
			d.PeakBytesPerS = float64(n)
			// Old versions have kB/s, as CUPTI does, and later ones bytes/s. No CUDA GPU has less than 10 GB/s or
			// more than 10 PB/s.
			if d.PeakBytesPerS < 1e10 {
				d.PeakBytesPerS *= 1000
			}
		}
		r.described[id] = d
	})
}

// maxDevices is the number of values of GPU.Device.
const maxDevices = 1 << 16

// deviceIndex returns the index of a GPU in Trace.Devices, from its number in a process.
func (r *reader) deviceIndex(pid, id int64) uint16 {
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
	d := r.described[gpu]
	d.ID = int(gpu)
	if number, ok := r.numberGPUs()[gpu]; ok {
		d.ID = int(number)
	}
	r.t.Devices = append(r.t.Devices, d)
	return i
}

// numberGPUs maps GPUs, which nsys orders in another way, to their device numbers in CUDA, by which programs and
// ranks choose them. It returns nil if processes number a GPU differently, or if CUDA_VISIBLE_DEVICES hides GPUs.
func (r *reader) numberGPUs() map[int64]int64 {
	numbers, taken := map[int64]int64{}, map[int64]int64{}
	for of, gpu := range r.gpuOf {
		n, seen := numbers[gpu]
		g, used := taken[of.id]
		if seen && n != of.id || used && g != gpu {
			return nil
		}
		numbers[gpu], taken[of.id] = of.id, gpu
	}
	for gpu := range numbers {
		if _, ok := taken[gpu]; !ok {
			return nil
		}
	}
	return numbers
}

// maxDiagnostics limits the reported messages of nsys; messages about lost events have four times the limit.
const maxDiagnostics = 8

// readDiagnostics adds the warnings and errors of nsys, and all messages about lost events, to the trace's warnings.
func (r *reader) readDiagnostics(ctx context.Context, table string, c columns) error {
	serious := map[int64]bool{2: true, 3: true}
	if e, ok := r.table[tSeverities]; ok && e.hasAll("id", "name") {
		m := map[int64]string{}
		if err := r.readEnum(func() map[int64]string { return m }, strings.ToLower)(ctx, tSeverities, e); err != nil {
			return err
		}
		for id, name := range m {
			serious[id] = strings.Contains(name, "warning") || strings.Contains(name, "error")
		}
	}
	seen, more := map[string]bool{}, 0
	err := r.queryRows(ctx, "SELECT "+c.firstColumn("severity")+", "+c.firstColumn("text")+" FROM "+r.quotedTable(table), 2, func(v []any) {
		s := strings.Join(strings.Fields(cleanName(textOf(v[1]))), " ")
		lost := reportsLostEvents(s)
		if s == "" || seen[s] || !lost && !serious[integerOrZero(v[0])] {
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
		r.t.Warn(code, analyze.NsightReported+": "+s, "")
	})
	if more > 0 {
		r.t.Warn("nsys", fmt.Sprintf(analyze.NsightReported+" %d further warnings", more), "see its Diagnostics Summary")
	}
	return err
}

func reportsLostEvents(s string) bool {
	s = strings.ToLower(s)
	for _, word := range []string{"dropped", "lost", "discarded", "missing events", "buffer overflow", "incomplete"} {
		if strings.Contains(s, word) {
			return !strings.Contains(s, "0 events were lost") && !strings.Contains(s, "no events")
		}
	}
	return false
}
