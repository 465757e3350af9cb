package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

func caveats(f *gpuprof.Finding) string { return strings.Join(f.Caveats, "\n") }

// Each wait is claimed by the rule that says most about it, and counted by the others.
func TestItemOwnsItsCopy(t *testing.T) {
	a, _ := analyse(t, sceneItem(true)().trace())
	evidence(t, mustFind(t, a, "item"), map[string]any{"reads": 2, "reads_step": 1.0, "reads_without_wait": 0})
	if f := find(a, "hidden-sync"); f != nil {
		t.Errorf("the copy inside item() is a finding of its own: %s", f.Title)
	}
	if f := find(a, "explicit-sync"); f != nil {
		t.Errorf("the synchronise call inside item() is a finding of its own: %s", f.Title)
	}
}

func TestShapeOwnsItemInside(t *testing.T) {
	s := act(3, func(s *scene) {
		s.products(1, 300*us)
		s.in("aten::_unique2", s.item)
		s.work(60 * us)
		s.products(1, 100*us)
	})
	a, _ := analyse(t, s.trace())
	evidence(t, mustFind(t, a, "data-dependent-shape"), map[string]any{"operators": 2, "count_unique2": 2})
	if f := find(a, "item"); f != nil {
		t.Errorf("item() inside unique() is called the program's: %s", f.Title)
	}
}

func TestHiddenSyncNamesTheLine(t *testing.T) {
	a, _ := analyse(t, sceneCopyBack(model.Pageable, true)().trace())
	f := mustFind(t, a, "hidden-sync")
	if want := "/home/me/train.py(41): step (aten::to)"; len(f.Sites) != 1 || f.Sites[0].Where != want || f.Sites[0].Count != 2 {
		t.Errorf("sites are %v, want %q twice", f.Sites, want)
	}
	if f := find(a, "explicit-sync"); f != nil {
		t.Errorf("the synchronise call that ends the copy is a second finding: %s", f.Title)
	}
}

func TestExplicitSyncLeavesOutTheProfilers(t *testing.T) {
	a, x := analyse(t, sceneSync("cudaDeviceSynchronize")().trace())
	if x.Trailing < 0 {
		t.Fatal("the scene ends with a synchronisation of the profiler's")
	}
	evidence(t, mustFind(t, a, "explicit-sync"), map[string]any{"calls": 2, "calls_cuda_device_synchronize": 2})
}

func TestPageableWithoutPinnedHasNoNumber(t *testing.T) {
	s := act(3, func(s *scene) {
		s.in("aten::copy_", func() { s.copy(7, model.H2D, model.Pageable, 1<<20, 300*us, true) })
		s.products(1, 2000*us)
	})
	a, _ := analyse(t, s.trace())
	f := mustFind(t, a, "pageable-h2d")
	if f.ClaimNS != 0 || !strings.Contains(caveats(f), "no claim") {
		t.Errorf("claims %d ns and says %q", f.ClaimNS, caveats(f))
	}
	// What it cannot size, exposed-copy may.
	if f := mustFind(t, a, "exposed-copy"); f.ClaimNS != 2*300*us {
		t.Errorf("exposed-copy claims %d ns", f.ClaimNS)
	}
}

func TestCopiesAreClaimedOnce(t *testing.T) {
	a, _ := analyse(t, scenePageable(1<<20)().trace())
	pageable, exposed := mustFind(t, a, "pageable-h2d"), mustFind(t, a, "exposed-copy")
	// Per step: 1 MiB at 2 bytes a ns and 64 KiB at 8, all exposed, and 5 us
	// from the end of the first to the next launch.
	if sum, want := pageable.ClaimNS+exposed.ClaimNS, 2*(1<<19+8192+5*us); sum != want {
		t.Errorf("both claim %d ns, the copies and what follows them take %d", sum, want)
	}
}

func TestTF32AndAMPShareTheProducts(t *testing.T) {
	s := act(3, func(s *scene) {
		s.op("aten::mm", sgemm, 800*us)
		s.op("aten::mm", sgemm, 400*us)
		s.op("aten::conv2d", tf32conv, 200*us)
	})
	a, _ := analyse(t, s.trace())
	no32, amp := mustFind(t, a, "no-tf32"), mustFind(t, a, "no-amp")
	evidence(t, no32, map[string]any{"kernels": 4, "gemm_ns": 2 * 1200 * us, "conv_ns": int64(0), "tf32_ns": 2 * 200 * us})
	if no32.ClaimNS != 2*1050*us { // seven eighths of 1,200
		t.Errorf("no-tf32 claims %d ns", no32.ClaimNS)
	}
	if amp.ClaimNS != 2*100*us { // half of the products in TF32 is left
		t.Errorf("no-amp claims %d ns", amp.ClaimNS)
	}
}

// Convolutions in TF32 show that it is allowed for them: no line can allow it again for those in FP32, and 16 bits are
// the change that is left.
func TestNoTF32IsQuietWhereTF32IsAllowed(t *testing.T) {
	convs := func(s *scene) {
		s.op("aten::conv2d", simtConv, 800*us)
		s.op("aten::conv2d", tf32conv, 200*us)
	}
	a, _ := analyse(t, act(3, convs).trace())
	if f := find(a, "no-tf32"); f != nil {
		t.Errorf("no-tf32: %s", f.Title)
	}
	if f := mustFind(t, a, "no-amp"); f.ClaimNS != 2*(700+100)*us {
		t.Errorf("no-amp claims %d ns", f.ClaimNS)
	}
	a, _ = analyse(t, act(3, func(s *scene) { convs(s); s.op("aten::mm", sgemm, 400*us) }).trace())
	f := mustFind(t, a, "no-tf32")
	if f.ClaimNS != 2*350*us || f.Evidence["kernels"] != 2 || strings.Contains(f.PyTorch, "cudnn") {
		t.Errorf("no-tf32 claims %d ns of %v kernels: %s", f.ClaimNS, f.Evidence["kernels"], f.PyTorch)
	}
}

// TF32 has at most twice the rate of FP32 on the smaller chips, 16 bits four times.
func TestSmallTensorCoresClaimLess(t *testing.T) {
	s := act(3, func(s *scene) { s.op("aten::mm", sgemm, 800*us) })
	s.device.Name, s.device.Minor = "NVIDIA L40S", 9
	a, _ := analyse(t, s.trace())
	no32, amp := mustFind(t, a, "no-tf32"), mustFind(t, a, "no-amp")
	if no32.ClaimNS != 2*400*us || amp.ClaimNS != 2*200*us {
		t.Errorf("no-tf32 claims %d ns, no-amp %d ns", no32.ClaimNS, amp.ClaimNS)
	}
	// On a GeForce TF32 has the rate of FP32, and 16 bits twice that: only 16 bits save time.
	s.device.Name = "NVIDIA GeForce RTX 4090"
	a, _ = analyse(t, s.trace())
	if no32 := find(a, "no-tf32"); no32 != nil {
		t.Errorf("no-tf32 on a GeForce: %s", no32.Title)
	}
	if amp := mustFind(t, a, "no-amp"); amp.ClaimNS != 2*400*us || a.Findings[0].Rule != amp.Rule || !strings.Contains(caveats(amp), "TF32 and FP32 are equal") {
		t.Errorf("no-amp claims %d ns: %s", amp.ClaimNS, caveats(amp))
	}
}

func TestNoPrecisionAdviceWithoutCapability(t *testing.T) {
	s := act(3, func(s *scene) { s.op("aten::mm", "my_sgemm_kernel", 800*us) }) // names no architecture
	s.device.Major = 0
	a, _ := analyse(t, s.trace())
	if no32, amp := find(a, "no-tf32"), find(a, "no-amp"); no32 != nil || amp != nil {
		t.Errorf("advice on precision for a device of unknown capability: %v", ids(a))
	}
	s.device.Major, s.device.Minor = 6, 1
	a, _ = analyse(t, s.trace())
	if amp := find(a, "no-amp"); amp != nil {
		t.Errorf("a device without tensor cores is told to use them: %s", amp.Title)
	}
}

func TestGEMMsOfOddBF16AreNoTensorCoreKernels(t *testing.T) {
	const odd = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
	a, _ := analyse(t, act(3, func(s *scene) {
		s.op("aten::mm", sgemm, 100*us)
		s.op("aten::mm", odd, 100*us)
	}).trace())
	if f := mustFind(t, a, "no-tf32"); f.Evidence["kernels"] != 2 {
		t.Errorf("counts %v FP32 products, want 2: TF32 does nothing for bf16 operands", f.Evidence["kernels"])
	}
	mustFind(t, a, "no-amp") // an xmma kernel with ffma does not show that tensor cores are in use
}

func TestLoaderWithoutDevice(t *testing.T) {
	s := act(3, func(s *scene) {
		s.loader(3000 * us)
		s.in("aten::mm", func() { s.work(1000 * us) })
	})
	s.device.Name = ""
	a, _ := analyse(t, s.trace())
	f := mustFind(t, a, "dataloader-stall")
	if f.ClaimNS != 2*3002*us || !strings.Contains(caveats(f), "no device recorded") {
		t.Errorf("claims %d ns and says %q", f.ClaimNS, caveats(f))
	}
	if a.Findings[0].Rule != f.Rule || strings.Contains(f.PyTorch, "pin_memory") {
		t.Errorf("findings without a device: %v, %s", ids(a), f.PyTorch)
	}
}

func TestHostClaimsSayTheyAreInflated(t *testing.T) {
	s := act(3, func(s *scene) {
		s.inKind(model.Python, "train.py(7): step", "", func() {
			s.loader(3000 * us)
			s.op("aten::mm", sgemm, 400*us)
		})
	})
	a, _ := analyse(t, s.trace())
	for _, f := range a.Findings {
		if got := strings.Contains(caveats(&f), "inflated by profiling"); got != hostRules[f.Rule] {
			t.Errorf("%s: says that it is inflated: %v", f.Rule, got)
		}
	}
	if f := mustFind(t, a, "dataloader-stall"); !strings.HasPrefix(f.Sites[0].Where, "train.py(7): step") {
		t.Errorf("site is %v", f.Sites)
	}
}

// A kernel that is missing may have run in what looks like a wait.
func TestDroppedKernelsTakeClaimsAway(t *testing.T) {
	with := func(dropped bool) *scene {
		return act(3, func(s *scene) {
			s.loader(3000 * us)
			if dropped {
				s.call("cudaLaunchKernel", callTime)
			}
			for range 60 {
				s.op("aten::add", addKernel, 2*us)
				s.work(12 * us)
			}
		})
	}
	whole, _ := analyse(t, with(false).trace())
	for _, rule := range []string{"dataloader-stall", "launch-bound"} {
		if f := mustFind(t, whole, rule); f.ClaimNS == 0 {
			t.Errorf("%s claims nothing in the whole trace", rule)
		}
	}
	a, _ := analyse(t, with(true).trace())
	f := mustFind(t, a, "trace-quality")
	evidence(t, f, map[string]any{"dropped_kernels": 2, "kernel_launches": 122})
	if got := f.Evidence["suppressed"].(string); !strings.Contains(got, "launch-bound") {
		t.Errorf("suppressed are %q", got)
	}
	if f := find(a, "launch-bound"); f != nil {
		t.Errorf("launch-bound rests on launches, of which one in sixty has no kernel: %s", f.Title)
	}
	if f := mustFind(t, a, "dataloader-stall"); f.ClaimNS != 0 || !strings.Contains(caveats(f), "see trace-quality") {
		t.Errorf("the loader claims %d ns and says %q", f.ClaimNS, caveats(f))
	}
}

// One missing kernel in many takes away only the wait it may have filled.
func TestOneDroppedKernelTakesItsWait(t *testing.T) {
	step := 0
	with := func(dropped bool) *analyze.Analysis {
		step = 0
		a, _ := analyse(t, act(3, func(s *scene) {
			step++
			for i := range 120 {
				if i == 60 {
					s.work(500 * us)
					if dropped && step == 2 {
						s.call("cudaLaunchKernel", callTime)
					}
					s.work(500 * us)
				}
				s.op("aten::add", addKernel, 2*us)
				s.work(12 * us)
			}
		}).trace())
		return a
	}
	claims := func(a *analyze.Analysis) int64 {
		return mustFind(t, a, "launch-bound").ClaimNS + mustFind(t, a, "host-bound").ClaimNS
	}
	if lost := claims(with(false)) - claims(with(true)); lost < 1000*us || lost > 1020*us {
		t.Errorf("a missing kernel takes %d ns away, want the wait of a millisecond", lost)
	}
}

func TestCapturedLaunchesAreNotMissing(t *testing.T) {
	s := act(3, func(s *scene) {
		s.call("cudaStreamBeginCapture_v10000", callTime)
		for range 5 {
			s.in("aten::add", func() { s.call("cudaLaunchKernel", callTime) })
		}
		s.call("cudaStreamEndCapture_v10000", callTime)
		s.products(3, 200*us)
	})
	a, _ := analyse(t, s.trace())
	if f := find(a, "trace-quality"); f != nil {
		t.Errorf("launches that only record are called dropped: %v", f.Evidence)
	}
}

// Waits that end with work of unknown origin say nothing about the host.
func TestUnknownLaunchesSuppressLaunchBound(t *testing.T) {
	a, x := analyse(t, act(3, func(s *scene) {
		for range 6 {
			s.op("aten::add", addKernel, 2*us)
			s.work(12 * us)
		}
		s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, stream: 7, blocks: 4096}, 2*us)
	}).trace())
	d := x.Devices[0]
	if d.Unknown.And(x.Steady).Total()*50 < x.Steady.Total() {
		t.Fatal("the scene has too little unknown time")
	}
	if f := find(a, "launch-bound"); f != nil {
		t.Errorf("fires: %s", f.Title)
	}
	f := mustFind(t, a, "trace-quality")
	if got := f.Evidence["suppressed"]; got != "launch-bound" || !strings.Contains(caveats(f), "launch-bound would have claimed") {
		t.Errorf("suppressed are %v: %s", got, caveats(f))
	}
}

func TestGraphsMuteOnlyLaunches(t *testing.T) {
	a, _ := analyse(t, act(3, func(s *scene) {
		s.loader(1000 * us)
		c := s.call("cudaGraphLaunch", 20*us)
		for k := range int64(20) {
			s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, corr: c, stream: 7, blocks: 4096, graph: 1 + k}, 2*us)
		}
	}).trace())
	if f := mustFind(t, a, "dataloader-stall"); f.ClaimNS == 0 {
		t.Errorf("a graph takes the loader's claim away: %v", f)
	}
	if f := find(a, "launch-bound"); f != nil {
		t.Errorf("a graph of short kernels is called launch-bound: %s", f.Title)
	}
	evidence(t, mustFind(t, a, "trace-quality"), map[string]any{"graph_launches": 2, "graph_operations": 40})
}

func TestDeterministicIsSuspected(t *testing.T) {
	for rule, s := range map[string]*scene{"deterministic": sceneSort("aten::index_put_")(), "deterministic-fill": sceneFill("aten::resize_")()} {
		a, _ := analyse(t, s.trace())
		if f := mustFind(t, a, rule); !f.Suspect || !strings.Contains(caveats(f), "suspected") {
			t.Errorf("%s is not marked as suspected: %+v", rule, f)
		}
	}
}

// With several devices no instant is claimed twice, and a process is not
// blamed for a device that another one drives.
func TestSeveralDevices(t *testing.T) {
	s := act(3, func(s *scene) {
		s.loader(2000 * us)
		for on := range uint16(2) {
			s.on = on
			s.op("aten::mm", bf16gemm, 100*us)
		}
	})
	a, x := analyse(t, s.trace())
	if len(x.Devices) != 2 {
		t.Fatalf("%d devices", len(x.Devices))
	}
	f := mustFind(t, a, "dataloader-stall")
	if f.ClaimNS > 2*2002*us {
		t.Errorf("two devices that wait for one loader claim %d ns, twice its time", f.ClaimNS)
	}
	checkBounds(t, a, x)
}

// A recording in which the first steps take several times as long as the last.
func TestUnsettledStepsAreSaid(t *testing.T) {
	for _, first := range []int64{100, 4000} {
		work := first * us
		a, _ := analyse(t, act(6, func(s *scene) {
			s.products(2, 300*us)
			s.wait("cudaDeviceSynchronize")
			s.work(work)
			work = max(work/2, 100*us)
			s.products(1, 100*us)
		}).trace())
		f := mustFind(t, a, "explicit-sync")
		if says := strings.Contains(caveats(f), "had not settled"); says != (first == 4000) {
			t.Errorf("work of %d us at first: says %q", first, f.Caveats)
		}
	}
}

func TestEmptyTrace(t *testing.T) {
	a, _ := analyse(t, newScene().trace())
	if len(a.Findings) != 0 {
		t.Errorf("findings in an empty trace: %v", ids(a))
	}
}

func TestRuleIDs(t *testing.T) {
	want := strings.Fields("straggler expert-imbalance not-steady decode-bytes allocator-churn dataloader-stall hidden-sync blocking-copy explicit-sync item data-dependent-shape pageable-h2d unified-memory exposed-copy ddp-buffers eager-decode launch-bound " +
		"no-tf32 no-amp tensor-cores off-peak-gemm deterministic deterministic-fill unfused-attention attention-off-peak memory-bound-chain elementwise-chain small-collective pipeline-bubble exposed-comm host-bound " +
		"checkpoint-write logging outside-operators recomputation starved-machine float64-parameters too-many-threads anomaly-mode optimizer-loop " +
		"stream-wait small-grid one-kernel prefill-in-decode decode-allreduce scheduler-gap recompilation host-operator trace-quality")
	if got := rules.RuleIDs(); !slices.Equal(got, want) {
		t.Errorf("rules are %v", got)
	}
}

// act acts out n steps of a program.
func act(n int, body func(s *scene)) *scene {
	s := newScene()
	return s.repeat(n, func() { body(s) }).end()
}

// A kernel that alone fills little of the device is named with its grid; blocks below a warp count as part of one.
func TestSmallGrids(t *testing.T) {
	for _, c := range []struct {
		name    string
		blocks  int64
		threads int32
		claim   int64 // us of 100, -1 no finding
		want    string
	}{
		{"one thread", 1, 1, 99, "is a serial kernel: one thread runs it on a device of 108 multiprocessors"},
		{"one thread in each block", 1080, 1, 97, "runs in 1080 blocks of 1 thread on a device of 108 multiprocessors, whose warps have 32 threads"},
		{"half a device", 54, 256, 0, "runs in 54 blocks of 256 threads on a device of 108 multiprocessors"},
		{"a quarter of each warp", 100_000, 8, 75, "runs in 100000 blocks of 8 threads on a device of 108 multiprocessors, whose warps have 32 threads"},
		{"a full grid", 10_000, 256, -1, ""},
		{"a grid that is not known", 0, 0, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := act(4, func(s *scene) { s.kernelOn(7, "add(float*)", 100*us, c.blocks) }).trace()
			for i := range in.GPU {
				in.GPU[i].Threads = c.threads
			}
			a, _ := analyse(t, in)
			f := find(a, "small-grid")
			if c.claim < 0 {
				if f != nil {
					t.Errorf("%+v", f)
				}
				return
			}
			if f == nil || !strings.HasPrefix(f.Title, "add "+c.want) {
				t.Fatalf("%+v", a.Findings)
			}
			if narrow := c.blocks > 108; narrow != strings.HasPrefix(f.PyTorch, "blocks of 128") {
				t.Errorf("%d blocks: %s", c.blocks, f.PyTorch)
			}
			if serial := c.blocks*int64(c.threads) == 1; serial != strings.HasPrefix(f.PyTorch, "divide the work of the kernel") {
				t.Errorf("%d blocks of %d threads: %s", c.blocks, c.threads, f.PyTorch)
			}
			if d := f.StepNS/us - c.claim; d < -1 || d > 1 {
				t.Errorf("claims %d ns of each step: %s", f.StepNS, f.Title)
			}
		})
	}
}

// An allocation from a pool is a finding if the pool asks the driver for memory: such a call takes long.
func TestPoolThatAsksTheDriver(t *testing.T) {
	for _, c := range []struct {
		took  int64
		finds bool
	}{{3 * us, false}, {90 * us, true}} {
		s := newScene()
		a, _ := analyse(t, s.repeat(3, func() {
			s.products(2, 40*us)
			s.wait("cudaStreamSynchronize")
			s.call("cudaMallocAsync", c.took)
			s.products(1, 40*us)
		}).end().trace())
		f := find(a, "allocator-churn")
		if (f != nil) != c.finds {
			t.Errorf("calls of %d ns: the findings are %+v", c.took, a.Findings)
		}
		if f != nil && (f.StepNS > c.took+10*us || !strings.HasPrefix(f.Title, "the memory pool asks the driver for memory in ")) {
			t.Errorf("claims %d ns: %s", f.StepNS, f.Title)
		}
	}
}
