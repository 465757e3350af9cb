package analyze

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const msNS = int64(1_000_000)

// kernels launches n kernels of a length, each as the one before ends; the host takes callNS for each.
func (b *builder) kernels(name string, n int, at, length, callNS int64) (host, device int64) {
	device = at + callNS
	for range n {
		start := max(at+callNS, device)
		b.launch(name, at, callNS, start, start+length)
		at, device = at+callNS, start+length
	}
	return at, device
}

// TestProgramOf: the program is told by the format and the names of the recording.
func TestProgramOf(t *testing.T) {
	for _, c := range []struct {
		format model.Format
		names  []string
		want   Program
		engine string
	}{
		{model.Kineto, []string{"ncclDevKernel_Generic"}, PyTorch, ""},
		{model.Nsys, []string{"void at::native::reduce_kernel<512>(float*)"}, PyTorch, ""},
		{model.Nsys, []string{"vecAdd(double*, double*)"}, CUDA, ""},
		{model.Nsys, []string{"sm80_xmma_fprop_implicit_gemm", "ExecutionContext::enqueue"}, TensorRT, ""},
		{model.Nsys, []string{"__pgi_uacc_cuda_fill_42_gpu"}, OpenACC, ""},
		{model.Nsys, []string{"solver_137_gpu"}, OpenACC, ""},
		{model.Nsys, []string{"julia_vadd_1234"}, Julia, ""},
		{model.Nsys, []string{"cupy_add__float32"}, CuPyNumba, ""},
		{model.Nsys, []string{"loop_add_fusion"}, JAX, ""},
		{model.Nsys, []string{"void onnxruntime::cuda::_Slice<float>"}, ONNXRuntime, ""},
		{model.Nsys, []string{"void tensorflow::BiasNHWCKernel<float>"}, TensorFlow, ""},
		{model.Nsys, []string{"triton_poi_fused_add_0"}, Triton, ""},
		{model.Rocpd, []string{"vecAdd"}, HIP, ""},
		{model.XLA, []string{"fusion"}, JAX, ""},
		{model.Kineto, []string{"void vllm::rms_norm_kernel<float>"}, PyTorch, "vLLM"},
		{model.Kineto, []string{"step[DECODE bs=32]", "void vllm::rms_norm_kernel<float>"}, PyTorch, "SGLang"},
	} {
		b := newBuilder()
		b.t.Format = c.format
		for i, name := range c.names {
			b.launch(name, int64(i)*1000, 100, int64(i)*1000+200, int64(i)*1000+900)
		}
		r := b.index(t).Recording
		if r.Program != c.want || r.Engine != c.engine {
			t.Errorf("%s of %s is %s with %q, want %s with %q", c.names, c.format, r.Program, r.Engine, c.want, c.engine)
		}
	}
}

// TestEngineSteps: engines name their steps, one alone is a step, and names tell what it serves.
func TestEngineSteps(t *testing.T) {
	for _, c := range []struct {
		names   []string
		steps   int
		serving string
	}{
		{[]string{"execute_context_0(0)_generation_64(64)"}, 1, "decode"},
		{[]string{"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"}, 1, "decode"},
		{[]string{"execute_context_1(888_788544)_generation_0(0)"}, 1, "prefill"},
		{[]string{"execute_new_1_cached_0", "execute_new_0_cached_3", "execute_new_0_cached_3"}, 3, "mixed"},
		{[]string{"step[DECODE bs=32]", "step[DECODE bs=32]", "step[EXTEND bs=2 toks=900]"}, 3, "mixed"},
		{[]string{"[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs"}, 1, "decode"},
		{[]string{"[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs"}, 1, "mixed"},
		{[]string{"decode[bs=117/128 tok=117 d=117]"}, 1, "decode"},
		{[]string{"capture_128_decode"}, 0, ""},
	} {
		b := newBuilder()
		at := int64(1000)
		for _, name := range c.names {
			from := at
			host, device := b.kernels("gemm", 4, at+10, 500, 20)
			b.host(model.Annotation, name, from, host+5)
			at = device + 100
		}
		x := b.index(t)
		steps := len(x.Steps)
		if steps != c.steps || x.Recording.Serving != c.serving {
			t.Errorf("%q: %d steps of %s, serving %q; want %d, %q", c.names, steps, x.StepSource, x.Recording.Serving, c.steps, c.serving)
		}
		if steps > 0 && x.Recording.StepsCover != 1 {
			t.Errorf("%q: steps cover %g", c.names, x.Recording.StepsCover)
		}
	}
}

// TestDenoisingSteps: the compiled graph that repeats in the making of an image is the step.
func TestDenoisingSteps(t *testing.T) {
	b := newBuilder()
	at := int64(1000)
	begin := at
	for range 4 {
		from := at
		host, device := b.kernels("sage_fwd", 3, at+10, 500, 20)
		b.host(model.Annotation, "## Call CompiledFxGraph fabc ##", from, host)
		at = device + 50
	}
	b.host(model.Annotation, "execute_diffusion_1_256x256", begin-10, at)
	if x := b.index(t); len(x.Steps) != 4 || !x.Steps[0].Dropped {
		t.Errorf("%d steps of %s", len(x.Steps), x.StepSource)
	}
}

// TestWorkFromBefore: work that was launched as the recording began starts far later than others
// after their launch, so that the device may have been at work from before. Nothing before that
// is starved, queued, or in a step.
func TestWorkFromBefore(t *testing.T) {
	made := func(delay int64) *Index {
		b := newBuilder()
		begin := int64(1_000_000)
		b.launch("first", begin+100, 5000, begin+6000+delay, begin+56_000+delay)
		at := begin + 10_000
		device := begin + 56_000 + delay
		for range 20 {
			b.launch("gemm", at, 5000, device, device+50_000)
			at, device = at+6000, device+50_000
		}
		b.host(model.Annotation, "step[DECODE bs=1]", begin, at)
		return b.index(t)
	}
	x := made(8 * msNS)
	if want := 8*msNS + 6000 - 100 + 100; x.Recording.BeforeNS != want {
		t.Errorf("unknown for %d ns, want %d", x.Recording.BeforeNS, want)
	}
	d := x.Devices[0]
	if idle := d.Starved.TotalAnd(x.Steady) + d.Queued.TotalAnd(x.Steady); idle != 0 || x.Steady.Total() != 21*50_000 {
		t.Errorf("steady for %d ns, idle in it for %d", x.Steady.Total(), idle)
	}
	if x := made(0); x.Recording.BeforeNS != 0 {
		t.Errorf("unknown for %d ns in a recording that begins with its work", x.Recording.BeforeNS)
	}
}

// TestPhases: start-up, compilation and capture are no steady part.
func TestPhases(t *testing.T) {
	for _, c := range []struct {
		name, phase string
		want        int64 // ms
		build       func(b *builder) (from int64)
	}{
		{"a context", PhaseStartUp, 300, func(b *builder) int64 {
			b.host(model.API, "cudaMalloc", 0, 299*msNS)
			return 300 * msNS
		}},
		{"the profiler's start", PhaseStartUp, 200, func(b *builder) int64 {
			b.host(model.Overhead, "CUDA profiling initialization", 0, 200*msNS)
			return 201 * msNS
		}},
		{"frames of a compiler", PhaseCompile, 150, func(b *builder) int64 {
			b.host(model.Python, "torch/_dynamo/convert_frame.py(1271): _compile", 0, 150*msNS)
			return 151 * msNS
		}},
		{"a pause before a new Triton kernel", PhaseCompile, 400, func(b *builder) int64 {
			b.host(model.API, "cudaStreamIsCapturing", 0, 1000)
			b.launch("triton_poi_fused_add_0", 400*msNS, 1000, 400*msNS+2000, 400*msNS+9000)
			return 401 * msNS
		}},
		{"capture", PhaseCapture, 100, func(b *builder) int64 {
			b.host(model.API, "cudaStreamBeginCapture", 0, 1000).host(model.API, "cudaStreamEndCapture", 100*msNS-1000, 100*msNS)
			return 101 * msNS
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			b.kernels("gemm", 20, c.build(b), 10_000, 5000)
			x := b.index(t)
			found := false
			for _, p := range x.Recording.Phases {
				if p.Name == c.phase {
					found = true
					if (p.NS+msNS/2)/msNS != c.want {
						t.Errorf("%s takes %d ns, want %d ms", p.Name, p.NS, c.want)
					}
					if p.Spans.TotalAnd(x.Steady) != 0 {
						t.Error("the steady part has some of it")
					}
				}
			}
			if what, fix := x.NotSteady(); !found || !strings.Contains(what, c.phase) || fix == "" || !x.Unjudged() {
				t.Errorf("phases %v, %q, %q", x.Recording.Phases, what, fix)
			}
		})
	}
}

// TestRefusedSteps: ranges of layers that launch a small part of the work are no steps.
func TestRefusedSteps(t *testing.T) {
	b := newBuilder()
	b.t.Format = model.Nsys
	at := int64(1000)
	for i := range 12 {
		b.host(model.Annotation, fmt.Sprintf("Identity_%d", i), at, at+30)
		b.launch("copy", at+5, 10, at+40, at+45)
		at += 50
	}
	for i := range 12 {
		b.launch(fmt.Sprintf("conv_%d", i), at, 10, at+100, at+800)
		at += 1000
	}
	x := b.index(t)
	if x.Stepped() || len(x.Recording.Refused) == 0 {
		t.Errorf("steps of %s, refused %q", x.StepSource, x.Recording.Refused)
	}
}
