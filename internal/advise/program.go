package advise

import (
	"slices"

	"github.com/gpuprof/gpuprof"
)

// program is what a workload says about its stages and knobs.
type program struct {
	knobs  []gpuprof.Knob
	stages map[string]gpuprof.Stage
	named  map[gpuprof.StageRole]string // the stage of a role
}

// programOf reads a workload's values; of none it is empty.
func programOf(w gpuprof.Workload) *program {
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

// stage is the name of the stage with a role, "" where there is none.
func (p *program) stage(role gpuprof.StageRole) string { return p.named[role] }

// isOneOf says that a stage has one of these roles.
func (p *program) isOneOf(stage string, roles ...gpuprof.StageRole) bool {
	return stage != "" && slices.ContainsFunc(roles, func(r gpuprof.StageRole) bool { return p.named[r] == stage })
}

func (p *program) knob(name string) gpuprof.Knob {
	for _, k := range p.knobs {
		if k.Name == name {
			return k
		}
	}
	return gpuprof.Knob{}
}

// adviceFor is what a value of a knob means in a PyTorch program.
func (p *program) adviceFor(knob, value string) string {
	return gpuprof.LineFor(p.knob(knob).Advice, value)
}

// fix is a knob with the answer that makes it the remedy in question.
type fix struct {
	knob string
	gpuprof.Answer
}

// fixes are the knobs with a remedy that applies to the run's settings.
func (s *scene) fixes(remedy gpuprof.Remedy) []fix {
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

// fix is the first of them; false where there is none.
func (s *scene) fix(remedy gpuprof.Remedy) (fix, bool) {
	if all := s.fixes(remedy); len(all) > 0 {
		return all[0], true
	}
	return fix{}, false
}

// ruleOf is the rule that a knob belongs to when its effect was measured: by the
// answer that applies, else by its first.
func (s *scene) ruleOf(knob, to string) string {
	answers := s.knob(knob).Answers
	for _, a := range answers {
		if a.Applies(s.run.Knobs) {
			return ruleOfRemedy(a.Remedy, to)
		}
	}
	if len(answers) > 0 {
		return ruleOfRemedy(answers[0].Remedy, to)
	}
	return gpuprof.RuleMeasured
}

func ruleOfRemedy(r gpuprof.Remedy, to string) string {
	return map[gpuprof.Remedy]string{
		gpuprof.ReadTogether: gpuprof.RuleItem, gpuprof.LeavePeak: gpuprof.RuleResetStats, gpuprof.KeepPool: gpuprof.RuleAllocatorChurn, gpuprof.CopyUnwaited: gpuprof.RuleBlockingCopy, gpuprof.SkipSync: gpuprof.RuleExplicitSync,
		gpuprof.PinMemory: gpuprof.RulePageableH2D, gpuprof.PinOnce: gpuprof.RulePinEveryBatch, gpuprof.CopyBeside: gpuprof.RuleExposedCopy, gpuprof.CollateFaster: gpuprof.RuleCollateBound,
		gpuprof.AddWorkers: gpuprof.RuleDataloaderStall, gpuprof.KeepWorkers: gpuprof.RuleDataloaderStall, gpuprof.FeedWorkers: gpuprof.RuleDataloaderStall, gpuprof.CaptureGraph: gpuprof.RuleLaunchBound,
		gpuprof.AllowAnyOrder: gpuprof.RuleDeterministic, gpuprof.SkipFill: gpuprof.RuleDeterministicFill, gpuprof.LowerPrecision: ruleOfPrecision(to), gpuprof.Fuse: gpuprof.RuleFarFromRoofline,
		gpuprof.UseLibrary: gpuprof.RuleFarFromRoofline, gpuprof.UseThreads: gpuprof.RuleFewThreads, gpuprof.GrowBatch: gpuprof.RuleSmallBatch, gpuprof.CopyLess: gpuprof.RuleExposedCopy,
		gpuprof.Detach: gpuprof.RuleLeak, gpuprof.WriteFirst: gpuprof.RuleZeroGrad,
	}[r]
}
