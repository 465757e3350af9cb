package advise

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// program indexes the stages and knobs that a workload declares.
type program struct {
	knobs  []workloads.Knob
	stages map[string]gpuprof.Stage
	named  map[gpuprof.StageRole]string // stage by role
}

// programOf indexes a workload; nil gives an empty program.
func programOf(w workloads.Workload) *program {
	p := &program{stages: map[string]gpuprof.Stage{}, named: map[gpuprof.StageRole]string{}}
	if w == nil {
		return p
	}
	p.knobs = w.Knobs()
	for _, st := range w.Stages() {
		p.stages[st.Name] = st
		if _, taken := p.named[st.Role]; !taken && st.Role != gpuprof.RoleCompute {
			p.named[st.Role] = st.Name
		}
	}
	return p
}

// stage returns the name of the stage with a role, or "".
func (p *program) stage(role gpuprof.StageRole) string { return p.named[role] }

func (p *program) isOneOf(stage string, roles ...gpuprof.StageRole) bool {
	return stage != "" && slices.ContainsFunc(roles, func(r gpuprof.StageRole) bool { return p.named[r] == stage })
}

func (p *program) knob(name string) workloads.Knob {
	for _, k := range p.knobs {
		if k.Name == name {
			return k
		}
	}
	return workloads.Knob{}
}

func (p *program) adviceFor(knob, value string) string {
	return workloads.LineFor(p.knob(knob).Advice, value)
}

// fix is a knob with one of its answers: the answer declares the remedy that the knob provides, and the value to set.
type fix struct {
	knob string
	workloads.Answer
}

// findFixes returns, for each knob of the run, the first of its answers that provides the remedy and applies to the
// run's settings, if any.
func (s *runContext) findFixes(remedy workloads.Remedy) []fix {
	var out []fix
	for _, k := range s.knobs {
		if _, there := s.run.Knobs[k.Name]; !there {
			continue
		}
		for _, a := range k.Answers {
			if a.Remedy == remedy && a.Applies(s.run.Knobs) {
				out = append(out, fix{k.Name, a})
				break
			}
		}
	}
	return out
}

func (s *runContext) firstFix(remedy workloads.Remedy) (fix, bool) {
	if all := s.findFixes(remedy); len(all) > 0 {
		return all[0], true
	}
	return fix{}, false
}

// ruleOf returns the rule for a knob whose effect was measured. A knob's answers name the remedies that the knob
// provides. The rule follows from the remedy of the first answer that applies to the run's settings, or of the first
// answer if none applies; without answers it is RuleMeasured.
func (s *runContext) ruleOf(knob, to string) string {
	answers := s.knob(knob).Answers
	if len(answers) == 0 {
		return gpuprof.RuleMeasured
	}
	i := slices.IndexFunc(answers, func(a workloads.Answer) bool { return a.Applies(s.run.Knobs) })
	return ruleOfRemedy(answers[max(i, 0)].Remedy, to)
}

func ruleOfRemedy(r workloads.Remedy, to string) string {
	return map[workloads.Remedy]string{
		workloads.ReadTogether: gpuprof.RuleItem, workloads.LeavePeak: gpuprof.RuleResetStats, workloads.KeepPool: gpuprof.RuleAllocatorChurn, workloads.CopyUnwaited: gpuprof.RuleBlockingCopy, workloads.SkipSync: gpuprof.RuleExplicitSync,
		workloads.PinMemory: gpuprof.RulePageableH2D, workloads.PinOnce: gpuprof.RulePinEveryBatch, workloads.CopyBeside: gpuprof.RuleExposedCopy, workloads.CollateFaster: gpuprof.RuleCollateBound,
		workloads.AddWorkers: gpuprof.RuleDataloaderStall, workloads.KeepWorkers: gpuprof.RuleDataloaderStall, workloads.FeedWorkers: gpuprof.RuleDataloaderStall, workloads.CaptureGraph: gpuprof.RuleLaunchBound,
		workloads.AllowAnyOrder: gpuprof.RuleDeterministic, workloads.SkipFill: gpuprof.RuleDeterministicFill, workloads.LowerPrecision: ruleOfPrecision(to), workloads.Fuse: gpuprof.RuleFarFromRoofline,
		workloads.UseLibrary: gpuprof.RuleFarFromRoofline, workloads.UseThreads: gpuprof.RuleFewThreads, workloads.GrowBatch: gpuprof.RuleSmallBatch, workloads.CopyLess: gpuprof.RuleExposedCopy,
		workloads.Detach: gpuprof.RuleLeak, workloads.WriteFirst: gpuprof.RuleZeroGrad,
	}[r]
}
