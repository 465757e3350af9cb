package tracetest

import (
	"fmt"
	"strconv"
	"strings"
)

var forward = [...]struct {
	outer, inner, grad, kernel string
	ns, grid                   int64
}{
	{"aten::linear", "aten::addmm", "AddmmBackward0", "ampere_sgemm_128x64_tn", 52_000, 216},
	{"aten::layer_norm", "aten::native_layer_norm", "NativeLayerNormBackward0", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*, float const*, float const*, float*, float*, float*)", 9_000, 2048},
	{"aten::gelu", "aten::gelu", "GeluBackward0", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2> >(int, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2>)", 7_000, 1024},
	{"aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention", "ScaledDotProductFlashAttentionBackward0", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t> >(pytorch_flash::Flash_fwd_params)", 31_000, 96},
}

const foreach = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<4> >(at::native::(anonymous namespace)::TensorListMetadata<4>)"

// Call stacks as the profiler wrote them: innermost frame first.
var stacks = [...]string{
	"torch/nn/functional.py(1848): linear;torch/nn/modules/linear.py(96): forward;model.py(41): forward;train.py(93): train_one_epoch;train.py(140): <module>",
	"torch/nn/functional.py(2347): layer_norm;torch/nn/modules/normalization.py(189): forward;model.py(43): forward;train.py(93): train_one_epoch;train.py(140): <module>",
	"torch/nn/modules/activation.py(672): forward;model.py(45): forward;train.py(93): train_one_epoch;train.py(140): <module>",
}

func stepName(n int) string { return "ProfilerStep#" + strconv.Itoa(n) }

// piece is the JSON text that all events of a kind share.
type piece struct {
	lead string // up to the event's name
	args string // from after the duration to the first argument
}

// pieces sets the shared text of each kind of event, with white space or without.
func (g *generator) pieces() {
	cats := [kinds]string{"user_annotation", "cpu_op", "cuda_runtime", "python_function", "kernel", "gpu_memcpy", "gpu_memset", "cpu_instant_event"}
	if g.o.Old {
		cats = [kinds]string{"Operator", "Operator", "Runtime", "Python", "Kernel", "Memcpy", "Memset", ""}
		cats[python] = "python_function"
	}
	for k := range g.p {
		ph := `"X"`
		if kind(k) == memory {
			ph = `"i", "s": "t"`
		}
		cat := ""
		if cats[k] != "" {
			cat = `, "cat": "` + cats[k] + `"`
		}
		g.p[k] = piece{g.dense("{\n    \"ph\": " + ph + cat + ", \"name\": \""), g.dense(",\n    \"args\": {\n      ")}
	}
	g.sep = g.dense(",\n  ")
}

// dense drops the white space if Options.Compact is set.
func (g *generator) dense(s string) string {
	if g.o.Compact {
		return strings.NewReplacer("\n", "", " ", "").Replace(s)
	}
	return s
}

// put appends text to the buffer.
func (g *generator) put(s string) { g.buf = append(g.buf, s...) }

func (g *generator) num(key string, v int64) {
	g.buf = append(g.buf, key...)
	g.buf = strconv.AppendInt(g.buf, v, 10)
}

// micros writes ns as microseconds with three decimals, or none in old traces.
func (g *generator) micros(key string, ns int64) {
	g.num(key, ns/1000)
	if !g.o.Old {
		f := ns % 1000
		g.buf = append(g.buf, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
	}
}

func (g *generator) head() {
	if g.o.Array {
		g.put("[")
		return
	}
	g.put(g.dense("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": "))
	g.put(`"NVIDIA A100-SXM4-80GB"`)
	g.put(g.dense(", \"totalGlobalMem\": 85049999360,\n      \"computeMajor\": 8, \"computeMinor\": 0,\n      \"warpSize\": 32, \"numSms\": 108\n    }\n  ],\n"))
	if g.o.World > 0 {
		g.put(g.dense(fmt.Sprintf("  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d},\n", g.o.Rank, g.o.World)))
	}
	g.put(g.dense("  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": [\n  "))
}

func (g *generator) foot() {
	g.separate()
	g.put(g.dense("{\n    \"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 4242, \"tid\": 0,\n    \"args\": {\"name\": \"python\"}\n  }"))
	g.separate()
	g.put(g.dense("{\n    \"name\": \"thread_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 4242, \"tid\": 4242,\n    \"args\": {\"name\": \"main\"}\n  }"))
	g.put(g.dense("\n  ]"))
	if !g.o.Array {
		g.put(g.dense(",\n  \"traceName\": \"trace.json\"\n}\n"))
	}
	g.drain()
}

// separate begins a new element of the event array, after a comma if it is not the first.
func (g *generator) separate() {
	if g.stats.Events > 0 {
		g.put(g.sep)
	}
	g.stats.Events++
}

// flush writes the events of a step.
func (g *generator) flush() {
	for i := range g.events {
		e := &g.events[i]
		g.separate()
		g.one(e)
		if e.kind == call || e.kind >= kernel && e.kind <= memset {
			g.flow(e)
		}
		if len(g.buf) > 1<<16 {
			g.drain()
		}
	}
	g.drain()
}

func (g *generator) drain() {
	n, err := g.out.Write(g.buf)
	g.written += int64(n)
	if g.err == nil {
		g.err = err
	}
	g.buf = g.buf[:0]
}

func (g *generator) one(e *event) {
	p := &g.p[e.kind]
	g.put(p.lead)
	if e.kind == memory {
		g.put("[memory]")
	} else {
		g.put(e.name)
	}
	g.where(e)
	g.put(p.args)
	switch e.kind {
	case annotation:
		g.stats.Annotations++
		g.num(`"External id":`, e.ext)
	case operator:
		g.stats.Ops++
		g.operator(e)
	case call:
		g.stats.Calls++
		g.num(`"External id":`, e.ext)
		g.num(`,"cbid":`, 211)
		g.num(`, "correlation":`, e.corr)
	case python:
		g.stats.Python++
		g.num(`"Python parent id":`, 1)
		g.num(`, "Python id":`, int64(g.stats.Python))
	case memory:
		g.stats.Memory++
		g.num(`"Device Type": 1, "Device Id": 0, "Bytes":`, e.bytes)
		g.num(`, "Total Allocated":`, 1<<30+e.bytes)
		g.num(`, "Total Reserved":`, 2<<30)
	default:
		g.device(e)
	}
	g.put(g.dense("\n    }\n  }"))
}

// where writes the process, the thread or stream, and the times of an event.
func (g *generator) where(e *event) {
	switch {
	case e.kind >= kernel && e.kind <= memset && g.o.Old:
		g.num(`", "pid": 0, "tid": "stream `, e.stream)
		g.put(`"`)
	case e.kind >= kernel && e.kind <= memset:
		g.num(`", "pid": 0, "tid": `, e.stream)
	default:
		g.num(`", "pid": `, process)
		g.num(`, "tid": `, e.thread)
	}
	g.micros(",\n    \"ts\": ", e.ts)
	if e.kind != memory {
		g.micros(`, "dur": `, e.dur)
	}
}

func (g *generator) operator(e *event) {
	g.num(`"External id": `, e.ext)
	if e.seq >= 0 {
		g.num(`, "Sequence number": `, e.seq)
		g.put(`, "Fwd thread id": 0`)
	}
	if g.o.Stacks && e.stack > 0 {
		g.put(`, "Call stack": "`)
		g.put(stacks[e.stack-1])
		g.put(`"`)
	}
	g.put(`, "Record function id": 0, "Concrete Inputs": ["", "", "1", "[1, 1]"], "Input type": ["float", "float", "Scalar", "ScalarList"], "Input Strides": [[768, 1], [1, 768], [], []], "Input Dims": [[4096, 768], [768, 768], [], []]`)
	g.num(`, "Ev Idx": `, int64(g.stats.Ops))
}

func (g *generator) device(e *event) {
	if e.kind == kernel {
		g.stats.Kernels++
		g.stats.KernelNS += e.dur
		g.put(`"queued": 0, "device": 0, "context": 1,`)
	} else {
		g.put(`"device": 0, "context": 1,`)
	}
	g.num("\n      \"External id\": ", e.ext)
	g.num(`, "stream": `, e.stream)
	g.num(`, "correlation": `, e.corr)
	if e.kind == kernel {
		g.put(",\n      \"registers per thread\": 32,\n      \"shared memory\": 16896,\n      \"blocks per SM\": 2.0,\n      \"warps per SM\": 8.0,")
		g.num("\n      \"grid\": [", e.grid)
		g.put(", 1, 1],\n      \"block\": [128, 1, 1],\n      \"est. achieved occupancy %\": 13")
		return
	}
	if e.kind == memcpy {
		g.stats.Copies++
	} else {
		g.stats.Fills++
	}
	g.stats.CopyNS += e.dur
	g.num(`, "bytes": `, e.bytes)
	g.put(`, "memory bandwidth (GB/s)": 23.301688888888888`)
}

// flow writes the start of a flow arrow for a launching call, or its end for the launched device work.
func (g *generator) flow(e *event) {
	g.separate()
	ph, end := `"s"`, ""
	if e.kind != call {
		ph, end = `"f"`, `, "bp": "e"`
	}
	g.put("{\n    \"ph\": ")
	g.put(ph)
	g.num(`, "id": `, e.corr)
	if e.kind == call {
		g.num(`, "pid": `, process)
		g.num(`, "tid": `, e.thread)
	} else {
		g.num(`, "pid": 0, "tid": `, e.stream)
	}
	g.micros(`, "ts": `, e.ts)
	g.put(",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"")
	g.put(end)
	g.put("\n  }")
}
