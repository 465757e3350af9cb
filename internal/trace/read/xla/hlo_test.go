package xla_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/xla"
)

// kernelRun is a kernel of a GPU with the instruction that it belongs to.
type kernelRun struct{ kernel, instruction string }

// gpuSpace writes what XLA's profiler records of a GPU: the compiled program 6, and kernels one after the other. byName
// leaves out the number of the program.
func gpuSpace(hlo []byte, byName bool, runs ...kernelRun) []byte {
	const proto, op, module, id = 1, 2, 3, 4
	programs := text(1, text(2, []byte("/host:metadata")), entry(5, proto, "Hlo Proto"),
		text(4, number(1, 6), text(2, number(1, 6), text(2, []byte("jit_step(6)")), text(5, number(1, proto), text(6, hlo)))))
	fields := [][]byte{text(2, []byte("/device:GPU:0")), entry(5, op, "hlo_op"), entry(5, module, "hlo_module"), entry(5, id, "program_id")}
	events := [][]byte{text(2, []byte("Stream #13(Compute)")), number(3, base)}
	for i, r := range runs {
		fields = append(fields, entry(4, uint64(i+1), r.kernel))
		stats := [][]byte{text(4, number(1, op), text(5, []byte(r.instruction))), text(4, number(1, module), text(5, []byte("jit_step")))}
		if !byName {
			stats = append(stats, text(4, number(1, id), number(3, 6)))
		}
		events = append(events, text(4, append(stats, number(1, uint64(i+1)), number(2, uint64(i)*20_000_000), number(3, 10_000_000))...))
	}
	return append(text(1, append(fields, text(3, events...))...), programs...)
}

// costs returns the costs of the kernels, by position; nil for a kernel without an instruction.
func costs(t *testing.T, space []byte) (all []*model.Instruction) {
	t.Helper()
	tr, err := xla.Read(t.Context(), space, "a GPU", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.GPU {
		all = append(all, nil)
		if ext := tr.GPU[i].Ext; ext > 0 {
			all[i] = &tr.Instructions[ext-1]
		}
	}
	return all
}

// The FLOPs of programs that JAX compiled equal XLA's count (scripts/record/record_hlo.py); in loops, the count of
// one pass. Where one kernel computes a program that reads whole arrays, the bytes are equal too.
func TestCostsEqualXLAs(t *testing.T) {
	t.Parallel()
	var programs []struct {
		Name         string
		FLOPs, Bytes float64
		Module       []byte
	}
	recorded, err := os.ReadFile("testdata/hlo.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(recorded, &programs); err != nil {
		t.Fatal(err)
	}
	oneKernel := []string{"matrices", "batch", "two sums", "padded stride", "groups", "elements"}
	for _, p := range programs {
		hlo := text(1, p.Module)
		var runs []kernelRun
		for _, name := range xla.KernelInstructions(hlo) {
			runs = append(runs, kernelRun{"kernel_of_" + name, name})
		}
		flops, most := 0.0, model.Instruction{}
		for _, in := range costs(t, gpuSpace(hlo, len(p.Name)%2 == 0, runs...)) {
			if in == nil {
				t.Fatalf("%s: a kernel has no instruction", p.Name)
			}
			if in.Kind == "parameter" || in.Kind == "bitcast" { // no kernels

				continue
			}
			flops += in.FLOPs
			if in.Bytes > most.Bytes {
				most = *in
			}
		}
		if flops != p.FLOPs {
			t.Errorf("%s: %g FLOPs, XLA counts %g", p.Name, flops, p.FLOPs)
		}
		if slices.Contains(oneKernel, p.Name) && most.Bytes != p.Bytes {
			t.Errorf("%s: %s moves %g bytes, XLA counts %g", p.Name, most.Name, most.Bytes, p.Bytes)
		}
		if len(programs) != 12 {
			t.Errorf("%d programs", len(programs))
		}
	}
}

// Fields of an HloInstructionProto.
func hloShape(element uint64, dims ...uint64) []byte {
	all := [][]byte{number(2, element)}
	for _, d := range dims {
		all = append(all, number(3, d))
	}
	return slices.Concat(all...)
}

func hloOp(id uint64, name, opcode string, shape []byte, fields ...[]byte) []byte {
	return text(2, append([][]byte{text(1, []byte(name)), text(2, []byte(opcode)), text(3, shape), number(35, id)}, fields...)...)
}

func hloProgram(instructions ...[]byte) []byte {
	return text(1, text(3, append(instructions, number(5, 1))...))
}

// A call of cuBLAS has its dimensions in its configuration and returns its workspace beside the result. Its kernels
// share its cost. Without the dimensions, or with kernels that ran unequally often, the cost is unknown.
func TestLibraryCalls(t *testing.T) {
	t.Parallel()
	const bf16, u8 = 16, 6
	config := func(dims string) []byte {
		return fmt.Appendf(nil, `{"gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":%s}}`, dims)
	}
	const dims = `{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}`
	program := func(config []byte) []byte {
		return hloProgram(
			hloOp(1, "a", "parameter", hloShape(bf16, 64, 32)), hloOp(2, "b", "parameter", hloShape(bf16, 32, 16)),
			hloOp(3, "gemm", "custom-call", slices.Concat(number(2, 13), text(4, hloShape(bf16, 64, 16)), text(4, hloShape(u8, 1<<20))),
				number(36, 1), number(36, 2), text(28, []byte("__cublas$lt$matmul")), text(43, config)),
		)
	}
	const flops, bytes = 2 * 64 * 16 * 32, 2 * (64*32 + 32*16 + 64*16)
	for _, test := range []struct {
		name         string
		config       []byte
		runs         []kernelRun
		flops, bytes float64
	}{
		{"one kernel", config(dims), []kernelRun{{"gemm", "gemm"}, {"gemm", "gemm"}}, flops, bytes},
		{"two kernels", config(dims), []kernelRun{{"gemm", "gemm"}, {"reduce", "gemm"}}, flops / 2, bytes / 2},
		{"unequal", config(dims), []kernelRun{{"gemm", "gemm"}, {"reduce", "gemm"}, {"gemm", "gemm"}}, 0, 0},
		{"no dimensions", []byte("{}"), []kernelRun{{"gemm", "gemm"}}, 0, 0},
		{"no JSON", []byte("\x08\x01"), []kernelRun{{"gemm", "gemm"}}, 0, 0},
	} {
		in := costs(t, gpuSpace(program(test.config), false, test.runs...))[0]
		if in.Costed != (test.flops > 0) || in.Costed && (in.FLOPs != test.flops || in.Bytes != test.bytes) || !in.Product {
			t.Errorf("%s: %+v", test.name, in)
		}
		if in.Costed && (in.Precision != "16-bit" || in.Type != "bf16[64,16]") {
			t.Errorf("%s: %s, %s", test.name, in.Precision, in.Type)
		}
	}
}

// What the shapes do not tell has no cost, and a kernel whose program is not recorded has no instruction.
func TestUnknownCosts(t *testing.T) {
	t.Parallel()
	const f32 = 11
	big := hloShape(f32, 1<<40, 1<<40)
	program := hloProgram(
		hloOp(1, "a", "parameter", hloShape(f32, 64, 64)), hloOp(2, "huge", "parameter", big),
		hloOp(3, "kernel", "custom-call", hloShape(f32, 64, 64), number(36, 1), text(28, []byte("__cudnn$fmhaSoftmax"))),
		hloOp(4, "update", "dynamic-update-slice", hloShape(f32, 64, 64), number(36, 1)),
		hloOp(5, "lost", "negate", hloShape(f32, 64), number(36, 99)),
		hloOp(6, "sum", "dot", hloShape(f32, 64, 64), number(36, 1), number(36, 1), text(30, number(1, 7))),
		hloOp(7, "conv", "convolution", big, number(36, 2), number(36, 2), text(15, text(1, number(1, 1<<40)))),
		hloOp(8, "itself", "fusion", hloShape(f32, 64), number(36, 1), number(38, 1)),
	)
	var fan [][]byte // fusions that call the computation that they are in
	for id := range uint64(100) {
		fan = append(fan, hloOp(id+1, fmt.Sprint("fusion.", id), "fusion", hloShape(f32, 64), number(38, 1)))
	}
	if in := costs(t, gpuSpace(hloProgram(fan...), false, kernelRun{"k", "fusion.7"}))[0]; in == nil || in.Costed {
		t.Errorf("a hundred fusions in each other: %+v", in)
	}
	for _, name := range []string{"kernel", "update", "lost", "sum", "conv", "itself"} {
		if in := costs(t, gpuSpace(program, false, kernelRun{"k", name}))[0]; in == nil || in.Costed {
			t.Errorf("%s: %+v", name, in)
		}
	}
	if in := costs(t, gpuSpace(program, false, kernelRun{"k", "elsewhere"}))[0]; in != nil {
		t.Errorf("of another program: %+v", in)
	}
}

// A convolution by cuDNN and its two gradients have the same products. The count by hand: 8 samples, 10 x 10 outputs of
// 12 x 12 inputs under 3 x 3 kernels, 4 input features in each of 2 groups, 6 output features.
func TestCuDNNCalls(t *testing.T) {
	t.Parallel()
	const f32, u8 = 11, 6
	const flops = 2 * 8 * 10 * 10 * 3 * 3 * 4 * 6
	input, kernel, output := hloShape(f32, 8, 12, 12, 8), hloShape(f32, 3, 3, 4, 6), hloShape(f32, 8, 10, 10, 6)
	vectors := hloShape(f32, 8, 12, 12, 2, 4)
	const size = 4 * (8*12*12*8 + 3*3*4*6 + 8*10*10*6)
	convDims := slices.Concat(number(3, 2), number(4, 3), number(6, 0), number(6, 1), number(7, 0), number(8, 3), number(9, 0), number(10, 3),
		number(11, 1), number(11, 2), number(12, 1), number(12, 2))
	spatial := text(1, slices.Concat(number(1, 3), number(2, 1), number(5, 1), number(6, 1)))
	for _, test := range []struct {
		target              string
		left, right, result []byte
		known               bool
	}{
		{"convForward", input, kernel, output, true},
		{"convBiasActivationForward", input, kernel, output, true},
		{"convForwardGraph", input, kernel, output, true},
		{"convBackwardInput", output, kernel, input, true},
		{"convBackwardFilter", input, output, kernel, true},
		{"convForward", vectors, kernel, output, false},
		{"convElse", input, kernel, output, false},
	} {
		call := hloOp(3, "conv", "custom-call", slices.Concat(number(2, 13), text(4, test.result), text(4, hloShape(u8, 1<<20))),
			number(36, 1), number(36, 2), text(28, []byte("__cudnn$"+test.target)), text(15, slices.Concat(spatial, spatial)),
			text(16, convDims), number(50, 2))
		program := hloProgram(hloOp(1, "a", "parameter", test.left), hloOp(2, "b", "parameter", test.right), call)
		in := costs(t, gpuSpace(program, false, kernelRun{"k", "conv"}))[0]
		if in.Costed != test.known || test.known && (in.FLOPs != flops || in.Bytes != size || in.Precision != "tf32") || !in.Product {
			t.Errorf("%s: %+v, want %d FLOPs and %d bytes", test.target, in, flops, size)
		}
	}
}
