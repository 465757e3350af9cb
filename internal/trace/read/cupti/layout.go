package cupti

import (
	"strconv"
	"strings"
)

// field is the position of a number in a record. A field that the recording lacks reads as 0.
type field struct{ at, size int }

func (f field) valueIn(record []byte) uint64 {
	if f.at+f.size > len(record) {
		return 0
	}
	switch f.size {
	case 1:
		return uint64(record[f.at])
	case 2:
		return uint64(le.Uint16(record[f.at:]))
	case 4:
		return uint64(le.Uint32(record[f.at:]))
	case 8:
		return le.Uint64(record[f.at:])
	}
	return 0
}

// signedIn returns the value of a signed 4-byte field.
func (f field) signedIn(record []byte) int32 { return int32(uint32(f.valueIn(record))) }

// layouts maps record types to their fields by name.
type layouts map[string]map[string]field

// mostFields limits the memory for a hostile schema.
const mostFields = 64

// parseSchema parses lines of "kernel:start u64,end u64,uuid u8x16".
func parseSchema(text string) layouts {
	out := layouts{}
	for line := range strings.Lines(strings.TrimRight(text, "\x00")) {
		kind, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || len(out) >= mostFields {
			continue
		}
		fields, at := map[string]field{}, 0
		for i, f := range strings.Split(list, ",") {
			name, form, _ := strings.Cut(f, " ")
			form, times, _ := strings.Cut(form, "x")
			bits, err := strconv.Atoi(strings.TrimLeft(form, "ui"))
			n := 1
			if err == nil && times != "" {
				n, err = strconv.Atoi(times)
			}
			if err != nil || bits < 8 || bits > 64 || n < 1 || n > 1024 || i >= mostFields {
				break // later fields have no known position
			}
			fields[name] = field{at, bits / 8 * n}
			at += bits / 8 * n
		}
		out[kind] = fields
	}
	return out
}

type recordFields struct {
	kernel struct {
		start, end, corr, name, stream, gx, gy, gz, bx, by, bz, device, graph, node field
	}
	copy struct {
		start, end, bytes, corr, stream, device, kind, from, to, graph, node field
	}
	fill     struct{ start, end, bytes, corr, stream, device, memory, graph, node field }
	call     struct{ start, end, corr, thread, name, result field }
	nvtx     struct{ time, id, name, domain, thread, op field }
	device   struct{ id, name, sms, major, minor, memory, bandwidth, uuid field }
	clock    struct{ cupti, realtime, gap field }
	thread   struct{ thread, name field }
	lost     struct{ cupti, buffers, write, names, nvtx field }
	overhead struct{ start, end, kind, thread field }
	graph    struct{ start, end, corr, stream, graph, device field }
}

// timeFields returns the start and end fields of a record type. ok is false if it has not both, as for NVTX calls.
func (n *recordFields) timeFields(kind uint16) (start, end field, ok bool) {
	switch kind {
	case tKernel:
		return n.kernel.start, n.kernel.end, true
	case tCopy:
		return n.copy.start, n.copy.end, true
	case tFill:
		return n.fill.start, n.fill.end, true
	case tGraph:
		return n.graph.start, n.graph.end, true
	case tCall:
		return n.call.start, n.call.end, true
	case tOverhead:
		return n.overhead.start, n.overhead.end, true
	}
	return start, end, false
}

// isDeviceRecord reports whether a record type is a device operation.
func isDeviceRecord(kind uint16) bool {
	return kind == tKernel || kind == tCopy || kind == tFill || kind == tGraph
}

func (n *recordFields) setLayouts(l layouts) {
	k, c, f := l["kernel"], l["copy"], l["fill"]
	n.kernel.start, n.kernel.end, n.kernel.corr, n.kernel.name, n.kernel.stream = k["start"], k["end"], k["corr"], k["name"], k["stream"]
	n.kernel.gx, n.kernel.gy, n.kernel.gz, n.kernel.bx, n.kernel.by, n.kernel.bz = k["gx"], k["gy"], k["gz"], k["bx"], k["by"], k["bz"]
	n.kernel.device, n.kernel.graph, n.kernel.node = k["device"], k["graph"], k["node"]
	n.copy.start, n.copy.end, n.copy.bytes, n.copy.corr, n.copy.stream, n.copy.device = c["start"], c["end"], c["bytes"], c["corr"], c["stream"], c["device"]
	n.copy.kind, n.copy.from, n.copy.to, n.copy.graph, n.copy.node = c["kind"], c["from"], c["to"], c["graph"], c["node"]
	n.fill.start, n.fill.end, n.fill.bytes, n.fill.corr, n.fill.stream, n.fill.device = f["start"], f["end"], f["bytes"], f["corr"], f["stream"], f["device"]
	n.fill.memory, n.fill.graph, n.fill.node = f["memory"], f["graph"], f["node"]
	a, x, d := l["call"], l["nvtx"], l["device"]
	n.call.start, n.call.end, n.call.corr, n.call.thread, n.call.name, n.call.result = a["start"], a["end"], a["corr"], a["thread"], a["name"], a["result"]
	n.nvtx.time, n.nvtx.id, n.nvtx.name, n.nvtx.domain, n.nvtx.thread, n.nvtx.op = x["time"], x["id"], x["name"], x["domain"], x["thread"], x["op"]
	n.device.id, n.device.name, n.device.sms, n.device.major, n.device.minor = d["id"], d["name"], d["sms"], d["major"], d["minor"]
	n.device.memory, n.device.bandwidth, n.device.uuid = d["memory"], d["bandwidth"], d["uuid"]
	o, g, h, s := l["overhead"], l["graph"], l["thread"], l["lost"]
	n.clock.cupti, n.clock.realtime, n.clock.gap = l["clock"]["cupti"], l["clock"]["realtime"], l["clock"]["gap"]
	n.thread.thread, n.thread.name = h["thread"], h["name"]
	n.lost.cupti, n.lost.buffers, n.lost.write, n.lost.names, n.lost.nvtx = s["cupti"], s["buffers"], s["write"], s["names"], s["nvtx"]
	n.overhead.start, n.overhead.end, n.overhead.kind, n.overhead.thread = o["start"], o["end"], o["kind"], o["thread"]
	n.graph.start, n.graph.end, n.graph.corr, n.graph.stream, n.graph.graph, n.graph.device = g["start"], g["end"], g["corr"], g["stream"], g["graph"], g["device"]
}
