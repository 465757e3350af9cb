package roofline_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/xla"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// Fields of messages of protocol buffers.
var (
	number = tracetest.ProtoNumber
	text   = tracetest.ProtoText
	double = tracetest.ProtoDouble
)

// instruction is an operation of a TPU with the statistics that XLA's profiler writes for it.
type instruction struct {
	name, long, category string
	flops, modelFLOPs    uint64 // 0 not written
	bytes, mainBytes     uint64 // 0 not written
	start, end           uint64 // us from the begin of a step
}

// program has a loop of two iterations of a product and an addition, and a kernel that XLA did not write.
func program() []instruction {
	const product, sum = "%fusion.1 = bf16[1024,4096]{1,0:T(8,128)} fusion(bf16[1024,2048]{1,0} %a, bf16[2048,4096]{1,0} %b)", "%add.2 = f32[1024,4096]{1,0} add(f32[1024,4096]{1,0} %c, f32[1024,4096]{1,0} %d)"
	const flops, productBytes, sumBytes = 2 * 1024 * 2048 * 4096, 2 * (1024*2048 + 2048*4096 + 1024*4096), 3 * 4 * 1024 * 4096
	mul := instruction{"fusion.1", product, "convolution fusion", flops, flops, productBytes, 0, 10, 210}
	add := instruction{"add.2", sum, "non-fusion elementwise", 1024 * 4096, 1024 * 4096, sumBytes, 0, 220, 290}
	mul2, add2 := mul, add
	mul2.start, mul2.end, add2.start, add2.end = 300, 520, 530, 590
	return []instruction{
		// A loop has the cost of its body in both iterations, or in one: neither counts.
		{"while.9", "%while.9 = (s32[], bf16[1024,4096]) while(…)", "while", 2 * flops, 2 * flops, 2 * (productBytes + sumBytes), 0, 0, 600},
		mul, add, mul2, add2,
		{"attention.3", "%attention.3 = bf16[16,512]{1,0} custom-call(…)", "custom-call", 0, 0, 1 << 20, 0, 600, 700},
		{"fusion.4", "%fusion.4 = bf16[8,8]{1,0:S(1)} fusion(bf16[8,8]{1,0:S(1)} %x)", "loop fusion", 64, 64, 900 << 20, 0, 700, 710},
		{"fusion.5", "%fusion.5 = f32[1024,1024]{1,0} fusion(f32[1024,1024]{1,0:S(1)} %x)", "loop fusion", 64, 64, 8 << 20, 4 << 20, 710, 720},
		{"int8.6", "%int8.6 = s32[1024,1024]{1,0} fusion(s8[1024,1024]{1,0} %a, s8[1024,1024]{1,0} %b)", "convolution fusion", 1 << 30, 2 << 30, 6 << 20, 0, 720, 740},
	}
}

const tpuSteps, tpuStep = 4, 800 // us

// space writes the program as an XSpace, with a TPU's peak rates.
func space() []byte {
	keys := []string{"hlo_category", "flops", "model_flops", "bytes_accessed", "memory_access_breakdown", "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second", "device_type_string", "step_num"}
	at := func(key string) uint64 {
		for i, k := range keys {
			if k == key {
				return uint64(i + 1)
			}
		}
		panic(key)
	}
	var names, device [][]byte
	for i, key := range keys {
		names = append(names, text(5, number(1, uint64(i+1)), text(2, number(1, uint64(i+1)), text(2, []byte(key)))))
	}
	device = append(device, number(1, 2), text(2, []byte("/device:TPU:0")),
		text(6, number(1, at("device_type_string")), text(5, []byte("TPU v9"))),
		text(6, number(1, at("peak_teraflops_per_second")), double(2, 200)), text(6, number(1, at("peak_hbm_bw_gigabytes_per_second")), double(2, 1000)))
	var events [][]byte
	for i, in := range program() {
		id := uint64(i + 1)
		stats := [][]byte{number(1, id), text(2, []byte(in.long)), text(4, []byte(in.name)), text(5, number(1, at("hlo_category")), text(5, []byte(in.category)))}
		for key, v := range map[string]uint64{"flops": in.flops, "model_flops": in.modelFLOPs, "bytes_accessed": in.bytes} {
			if v > 0 {
				stats = append(stats, text(5, number(1, at(key)), number(3, v)))
			}
		}
		if in.mainBytes > 0 { // the rest is in the vector memory
			stats = append(stats, text(5, number(1, at("memory_access_breakdown")), text(6,
				text(1, number(1, 1), number(2, 1), number(3, in.mainBytes)), text(1, number(1, 1), number(2, 3), number(3, in.bytes-in.mainBytes)))))
		}
		device = append(device, text(4, number(1, id), text(2, stats...)))
	}
	for step := range uint64(tpuSteps) {
		for i, in := range program() {
			from := (step*tpuStep + in.start) * 1e6
			events = append(events, text(4, number(1, uint64(i+1)), number(2, from), number(3, (in.end-in.start)*1e6)))
		}
	}
	line := append([][]byte{number(1, 3), text(2, []byte("XLA Ops")), number(3, 1000)}, events...)
	host := append([][]byte{number(1, 1), text(2, []byte("/host:CPU")), text(4, number(1, 1), text(2, number(1, 1), text(2, []byte("train"))))}, names...)
	var steps [][]byte
	for step := range uint64(tpuSteps) {
		steps = append(steps, text(4, number(1, 1), number(2, step*tpuStep*1e6), number(3, (tpuStep-1)*1e6), text(4, number(1, at("step_num")), number(3, step))))
	}
	host = append(host, text(3, append([][]byte{number(1, 7), text(2, []byte("python")), number(3, 1000)}, steps...)...))
	return append(text(1, host...), text(1, append(append(device, names...), text(3, line...))...)...)
}

// chrome writes it as a Chrome trace, which has the statistics as texts and not the peak rates.
func chrome(t *testing.T) []byte {
	t.Helper()
	events := []map[string]any{
		{"ph": "M", "pid": 1, "name": "process_name", "args": map[string]any{"name": "/host:CPU"}},
		{"ph": "M", "pid": 2, "name": "process_name", "args": map[string]any{"name": "/device:TPU:0"}},
		{"ph": "M", "pid": 2, "tid": 3, "name": "thread_name", "args": map[string]any{"name": "XLA Ops"}},
	}
	for step := range uint64(tpuSteps) {
		events = append(events, map[string]any{"ph": "X", "pid": 1, "tid": 7, "name": "train", "ts": 1 + step*tpuStep, "dur": tpuStep - 1, "args": map[string]any{"step_num": step}})
		for _, in := range program() {
			args := map[string]any{"hlo_category": in.category, "long_name": in.long}
			for key, v := range map[string]uint64{"model_flops": in.modelFLOPs, "bytes_accessed": in.bytes} {
				if v > 0 {
					args[key] = fmtUint(v)
				}
			}
			events = append(events, map[string]any{"ph": "X", "pid": 2, "tid": 3, "name": in.name, "ts": 1 + step*tpuStep + in.start, "dur": in.end - in.start, "args": args})
		}
	}
	b, err := json.Marshal(map[string]any{"traceEvents": events})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fmtUint(v uint64) string { b, _ := json.Marshal(v); return string(b) }

func xlaRoofline(t *testing.T, form []byte) *analyze.Roofline {
	t.Helper()
	tr, err := xla.Read(t.Context(), form, "made", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	if rules.Rules(x, x.NewLedger()); x.Roofline == nil {
		t.Fatal("no roofline")
	}
	return x.Roofline
}

// Costs of XLA's profiler are rows like PyTorch's operators: a loop counts by its body, a kernel without a cost is
// unknown, and bytes of on-chip memories do not bound an instruction by the main one.
func TestInstructions(t *testing.T) {
	r := xlaRoofline(t, space())
	if r.Device != "TPU v9" || r.BytesPerS != 1e12 || r.FLOPsPerS["16-bit"] != 200e12 || r.DeviceNS != 690_000 || r.ModelledNS != 590_000 {
		t.Fatalf("%+v", r)
	}
	const flops, sumBytes = 2.0 * 1024 * 2048 * 4096, 3.0 * 4 * 1024 * 4096
	mul := find(t, r, "fusion.1")
	if want := int64(math.Round(2 * flops / 200e12 * 1e9)); mul.Calls != 2 || mul.NS != 420_000 || mul.Bound != "compute" || mul.BoundNS != want || mul.Precision != "16-bit" || mul.Shapes != "bf16[1024,4096]" {
		t.Errorf("%+v, want a bound of %d ns", mul, want)
	}
	if math.Abs(mul.FLOPsPerS/(2*flops/420e-6)-1) > 1e-9 {
		t.Errorf("%v FLOP/s", mul.FLOPsPerS)
	}
	add := find(t, r, "add.2")
	if want := int64(math.Round(2 * sumBytes / 1e12 * 1e9)); add.NS != 130_000 || add.Bound != "memory" || add.BoundNS != want || math.Abs(add.BytesPerS/(2*sumBytes/130e-6)-1) > 1e-9 {
		t.Errorf("%+v, want a bound of %d ns", add, want)
	}
	if o := find(t, r, "fusion.4"); o.Bytes != 0 || o.Bound != analyze.BoundOnChip {
		t.Errorf("bytes of an unknown memory: %+v", o)
	}
	if o := find(t, r, "fusion.5"); o.Bytes != 4<<20 || o.BoundNS != 4194 {
		t.Errorf("bytes of the main memory: %+v", o)
	}
	if o := find(t, r, "int8.6"); o.FLOPs != 2<<30 || o.Precision != "" || o.Bound != "memory" {
		t.Errorf("a product of bytes may be faster than the peak of bf16: %+v", o)
	}
	if len(r.Unmodelled) != 1 || r.Unmodelled[0] != (analyze.UnmodelledRuntime{Name: "attention.3", Reason: "XLA recorded no cost", NS: 100_000}) {
		t.Errorf("%+v", r.Unmodelled)
	}
	if r.HFU != 0 || math.Abs(r.ProductsCounted-440.0/540) > 1e-9 { // the kernel may be a product
		t.Errorf("HFU %v of %v of the products", r.HFU, r.ProductsCounted)
	}
	c := xlaRoofline(t, chrome(t))
	if o := find(t, c, "fusion.1"); c.Device != "" || o.Bound != analyze.BoundUnknown || o.Shapes != mul.Shapes || o.FLOPs != mul.FLOPs || o.Bytes != mul.Bytes || o.NS != mul.NS || o.Calls != 2 {
		t.Errorf("the Chrome trace: %q %+v", c.Device, o)
	}
}
