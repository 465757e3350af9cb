package rules_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

var trainingWords = regexp.MustCompile(`(?i)\b(loss|losses|optimizer|gradient|gradients|GradScaler|training|backward)\b`)

// Words of training are for programs that train.
func TestTrainingWordsOnlyInTraining(t *testing.T) {
	program := func(trains bool) *analyze.Analysis {
		a, _ := analyse(t, act(3, func(s *scene) {
			s.loader(3000 * us)
			s.op("aten::mm", sgemm, 800*us)
			s.item()
			for range 30 {
				s.op("aten::add", addKernel, 2*us)
				s.work(12 * us)
			}
			s.in("c10d::allreduce_", func() { s.kernelOn(7, allReduce, 600*us, 24) })
			if trains {
				s.in("autograd::engine::evaluate_function: AddmmBackward0", func() { s.op("aten::mm", bf16gemm, 20*us) })
				s.inKind(model.Annotation, "Optimizer.step#SGD.step", "", func() { s.work(10 * us) })
			}
		}).trace())
		return a
	}
	for _, f := range program(false).Findings {
		if w := trainingWords.FindString(f.Title + f.PyTorch + caveats(&f)); w != "" {
			t.Errorf("%s says %q to a program that does not train: %s", f.Rule, w, f.PyTorch+caveats(&f))
		}
	}
	said := ""
	for _, f := range program(true).Findings {
		said += f.PyTorch + caveats(&f)
	}
	for _, w := range []string{"losses", "optimizer"} {
		if !strings.Contains(said, w) {
			t.Errorf("no finding says %q to a program that trains: %s", w, said)
		}
	}
}

// Workers are suggested by the time of a fetch, the rest of the step and the
// CPUs there are, and never where they cannot win.
func TestWorkersByWhatAFetchTakes(t *testing.T) {
	for _, c := range []struct {
		name        string
		fetch, rest int64 // us
		cpus        int
		device      bool
		want, never string
	}{
		{"as many as keep up, and one", 3000, 1500, 64, true, "num_workers=3,", ""},
		{"no more than CPUs", 9000, 1000, 4, true, "num_workers=4,", ""},
		{"one CPU", 3000, 1500, 1, true, "one CPU", "num_workers="},
		{"a small dataset in memory", 400, 100, 64, true, "keep num_workers=0", "num_workers=1"},
		{"CPUs not known", 3000, 1500, 0, true, "no more workers than the program has CPUs", ""},
		{"no device", 3000, 1500, 8, false, "torch.set_num_threads(5)", "pin_memory"},
		{"no device and two CPUs", 3000, 1500, 2, false, "num_workers=1,", "pin_memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := act(4, func(s *scene) {
				s.loader(c.fetch * us)
				if c.device {
					s.products(1, c.rest*us)
				} else {
					s.in("aten::mm", func() { s.work(c.rest * us) })
				}
			})
			if !c.device {
				kept := s.events[:0]
				for _, e := range s.events {
					if e.kind != model.API {
						kept = append(kept, e)
					}
				}
				s.events, s.device.Name = kept, ""
			}
			in := s.trace()
			in.Program.CPUs = c.cpus
			a, _ := analyse(t, in)
			f := mustFind(t, a, "dataloader-stall")
			if !strings.Contains(f.PyTorch, c.want) || c.never != "" && strings.Contains(f.PyTorch, c.never) {
				t.Errorf("%q, want %q and never %q", f.PyTorch, c.want, c.never)
			}
		})
	}
}

// The advice about communication is about the collective that takes the time.
func TestAdviceByCollective(t *testing.T) {
	const sendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
	for _, c := range []struct {
		name, op, kernel string
		around           string
		trains           bool
		collective, knob string
	}{
		{"experts", "c10d::alltoall_base_", sendRecv, "", true, "all-to-all", "all-to-all"},
		{"a pipeline", "c10d::send", sendRecv, "", true, "send and receive", "micro-batches"},
		{"sharded parameters", "c10d::_allgather_base_", "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", "", true, "all-gather", "FSDP"},
		{"gradients", "c10d::allreduce_", allReduce, "DistributedDataParallel.forward", true, "all-reduce", "bucket_cap_mb"},
		{"a layer over ranks", "c10d::allreduce_", allReduce, "", false, "all-reduce", "tensor parallelism"},
		{"a layer over ranks, in training", "c10d::allreduce_", allReduce, "", true, "all-reduce", "tensor parallelism"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, act(3, func(s *scene) {
				s.products(1, 300*us)
				comm := func() { s.in(c.op, func() { s.kernelOn(7, c.kernel, 400*us, 24) }) }
				if c.around != "" {
					s.inKind(model.Annotation, c.around, "", comm)
				} else {
					comm()
				}
				if c.trains {
					s.in("autograd::engine::evaluate_function: MmBackward0", func() { s.op("aten::mm", bf16gemm, 100*us) })
				}
			}).trace())
			rule := "exposed-comm"
			if c.collective == "send and receive" {
				rule = "pipeline-bubble"
			}
			f := mustFind(t, a, rule)
			if f.Evidence["collective"] != c.collective || !strings.Contains(f.PyTorch, c.knob) {
				t.Errorf("%v: %s", f.Evidence["collective"], f.PyTorch)
			}
		})
	}
}

// host-bound names what the host did under the longest gaps: frames, ranges,
// operators, or between which operators it was.
func TestHostBoundNamesThePlace(t *testing.T) {
	for _, c := range []struct {
		name string
		work func(s *scene)
		want string
	}{
		{"a Python frame", func(s *scene) {
			s.inKind(model.Python, "train.py(12): log_metrics", "", func() { s.work(900 * us) })
		}, "train.py(12): log_metrics"},
		{"a range", func(s *scene) { s.inKind(model.Annotation, "augment", "", func() { s.work(900 * us) }) }, "augment"},
		{"an operator", func(s *scene) { s.in("mylib::plan", func() { s.work(900 * us) }) }, "mylib::plan"},
		{"a call", func(s *scene) { s.call("cudaHostRegister", 900*us) }, "cudaHostRegister"},
		{"nothing recorded", func(s *scene) { s.work(900 * us) }, "code between aten::conv2d and aten::mm"},
		{"a long and a short name", func(s *scene) {
			s.in(strings.Repeat("l", 90), func() { s.work(us) })
			s.work(900 * us)
		}, "code between " + strings.Repeat("l", 90) + " and aten::mm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, act(4, func(s *scene) {
				s.op("aten::conv2d", bf16gemm, 100*us)
				c.work(s)
				s.products(1, 100*us)
			}).trace())
			f := mustFind(t, a, "host-bound")
			if len(f.Sites) == 0 || f.Sites[0].Where != c.want || !strings.Contains(f.Title, c.want) {
				t.Errorf("sites are %v, want %q: %s", f.Sites, c.want, f.Title)
			}
			if f.Severity != gpuprof.High {
				t.Errorf("claims %g of the step", f.Share)
			}
		})
	}
}

// Two long names of a place are each cut: the title keeps both, and the list of places has them whole.
func TestHostBoundCutsEachName(t *testing.T) {
	before, after := "before_"+strings.Repeat("b", 90), "after_"+strings.Repeat("a", 90)
	a, _ := analyse(t, act(4, func(s *scene) {
		s.op(before, bf16gemm, 100*us)
		s.work(900 * us)
		s.op(after, bf16gemm, 100*us)
	}).trace())
	f := mustFind(t, a, "host-bound")
	if want := "in code between before_bbbb"; !strings.Contains(f.Title, want) || !strings.Contains(f.Title, "b… and after_aaaa") || !strings.Contains(f.Title, "a…") {
		t.Errorf("%s", f.Title)
	}
	if f.Sites[0].Where != "code between "+before+" and "+after {
		t.Errorf("sites are %v", f.Sites)
	}
}

// An operator that computes on the host is to compute on the device; one that launches, or is short, is not called so.
func TestHostBoundNamesOperatorsThatComputeOnTheHost(t *testing.T) {
	for _, c := range []struct {
		name     string
		work     func(s *scene)
		computes bool
	}{
		{"random numbers", func(s *scene) {
			s.in("aten::randn", func() { s.in("aten::normal_", func() { s.work(900 * us) }) })
		}, true},
		{"views", func(s *scene) {
			for range 9 {
				s.in("aten::view", func() { s.work(100 * us) })
			}
		}, false},
		{"an operator that allocates", func(s *scene) {
			s.in("aten::empty", func() { s.work(850 * us); s.call("cudaHostRegister", 50*us) })
		}, false},
	} {
		a, _ := analyse(t, act(4, func(s *scene) {
			s.op("aten::conv2d", bf16gemm, 100*us)
			c.work(s)
			s.products(1, 100*us)
		}).trace())
		f := mustFind(t, a, "host-bound")
		if got := strings.HasPrefix(f.PyTorch, "aten::normal_ computes on the host: make its tensors on the device"); got != c.computes {
			t.Errorf("%s: change is %q", c.name, f.PyTorch)
		}
	}
}

// A wait after every kernel exposes the latency of each launch: the host does not launch ahead of the device.
func TestHostBoundNamesTheWaitsBetweenLaunches(t *testing.T) {
	a, _ := analyse(t, act(4, func(s *scene) {
		for range 12 {
			c := s.call("cudaLaunchKernel", callTime)
			s.now -= callTime // the kernel begins long after its launch began
			s.now += us
			s.gpu(sceneEvent{kind: model.Kernel, name: bf16gemm, corr: c, stream: 7, blocks: 4096}, 40*us)
			s.wait("cudaThreadSynchronize")
		}
	}).trace())
	f := mustFind(t, a, "host-bound")
	evidence(t, f, map[string]any{"starved_ns": int64(0)})
	if !strings.Contains(f.Title, "begin after their launch") || !strings.Contains(f.PyTorch, "remove the waits between launches (cudaThreadSynchronize)") {
		t.Errorf("%s: change is %q", f.Title, f.PyTorch)
	}
}

// Communication is shown as what is exposed, and how much is hidden.
func TestHiddenCommunication(t *testing.T) {
	a, _ := analyse(t, act(3, func(s *scene) {
		s.products(1, 500*us)
		s.in("c10d::allreduce_", func() { s.kernelOn(20, allReduce, 300*us, 24) })
		s.wait("cudaStreamSynchronize")
	}).trace())
	if got := a.Step.CommHiddenNS; got != 300*us || a.Step.Classes[model.Communication] != 0 {
		t.Errorf("hidden are %d ns, exposed %d", got, a.Step.Classes[model.Communication])
	}
	found := false
	for _, p := range a.Step.Shown(0) {
		if p.Name == string(model.Communication) {
			found = strings.Contains(a.Most(p), "300 us hidden")
		}
	}
	if !found {
		t.Errorf("the parts of the step do not say what is hidden: %v", a.Step.Shown(0))
	}
}

// A long gap between many short kernels is not for launching them: what the host
// did in it is named by host-bound.
func TestLongGapsAreNotLaunches(t *testing.T) {
	a, _ := analyse(t, act(4, func(s *scene) {
		for range 40 {
			s.op("aten::add", addKernel, 2*us)
			s.work(12 * us)
		}
		s.inKind(model.Annotation, "decode images", "", func() { s.work(900 * us) })
		s.op("aten::add", addKernel, 2*us)
	}).trace())
	launch, host := mustFind(t, a, "launch-bound"), mustFind(t, a, "host-bound")
	if launch.StepNS > 800*us || host.StepNS < 900*us || host.StepNS > 950*us || host.Sites[0].Where != "decode images" {
		t.Errorf("launch-bound claims %d ns per step, host-bound %d at %v", launch.StepNS, host.StepNS, host.Sites)
	}
}

// A device that is idle before work of unknown launch has a finding too.
func TestIdleBeforeUnknownLaunches(t *testing.T) {
	s := newScene()
	s.repeat(4, func() {
		s.inKind(model.Annotation, "plan", "", func() { s.work(900 * us) })
		s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, stream: 7, blocks: 4096}, 100*us)
		s.work(120 * us)
	})
	a, _ := analyse(t, s.trace())
	f := mustFind(t, a, "host-bound")
	if f.ClaimNS != 0 || len(f.Sites) == 0 || f.Sites[0].Where != "plan" || !strings.Contains(caveats(f), "no time claimed") {
		t.Errorf("claims %d ns at %v: %s", f.ClaimNS, f.Sites, caveats(f))
	}
	if !a.Bound.Nothing {
		t.Errorf("a finding without a claim counts as one: %+v", a.Bound)
	}
}

// A device whose work is lost has no finding about the host: next to nothing of it was recorded.
func TestNearlyAllUnknown(t *testing.T) {
	s := newScene()
	s.repeat(4, func() {
		s.inKind(model.Annotation, "plan", "", func() { s.work(900 * us) })
		s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, stream: 7, blocks: 4096}, us)
		s.work(120 * us)
	})
	a, _ := analyse(t, s.trace())
	mustFind(t, a, "trace-quality")
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Rule == "host-bound" {
			t.Errorf("host-bound: %s", f.Title)
		}
	}
}

// The rest of a trace's only step, after its last operation, is the host's.
func TestTailOfOneStep(t *testing.T) {
	a, _ := analyse(t, act(1, func(s *scene) {
		s.products(4, 300*us)
		s.wait("cudaStreamSynchronize")
		s.in("torchvision::nms", func() { s.work(5000 * us) })
	}).trace())
	f := mustFind(t, a, "host-bound")
	if f.Sites[0].Where != "torchvision::nms" || f.ClaimNS < 5000*us || a.Step.OutsideNS != 0 {
		t.Errorf("claims %d ns at %v, outside are %d", f.ClaimNS, f.Sites, a.Step.OutsideNS)
	}
}

// Products on the ordinary cores are named by their shapes where those were recorded.
func TestTensorCoresNameShapes(t *testing.T) {
	a, _ := analyse(t, act(3, func(s *scene) {
		s.products(1, 100*us)
		s.inKind(model.Op, "aten::addmm", model.ArgsMark+"[[333], [4095, 768], [768, 333]]"+opcost.Separator+"[\"float\", \"float\", \"float\"]"+opcost.Separator+opcost.Separator, func() { s.kernel(oddGEMM, 160*us) })
	}).trace())
	f := mustFind(t, a, "tensor-cores")
	if want := "aten::addmm [333] [4095, 768] [768, 333]"; len(f.Sites) != 1 || f.Sites[0].Where != want {
		t.Errorf("sites are %v, want %q", f.Sites, want)
	}
}
