package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// collateBound: the device waits for batches, and most of a batch's time goes
// into collating it element by element.
func (s *scene) collateBound() []gpuprof.Finding {
	stStarved := s.stage(gpuprof.RoleInput)
	if stStarved == "" {
		return s.callerBound()
	}
	sample, collate := s.making()
	f, there := s.fix(workloads.CollateFaster)
	if !there || collate <= 0 || s.hostShort() {
		return nil
	}
	of := weights{stStarved: collate / (sample + collate)}
	want := s.typical(of)
	if w := s.figure(gpuprof.InputWorkers); w > 0 { // whoever samples still has to
		want = min(s.exposed(stStarved), s.step-sample/w)
		of[stStarved] = 1
	}
	return s.offer(advice{
		stage: s.stage(gpuprof.RoleCollate), knob: f.knob, to: f.To, of: of, want: want,
		evidence: map[string]any{"starved_exposed_s": s.exposed(stStarved), "collate_s": collate, "sample_s": sample, gpuprof.InputWorkers: s.figure(gpuprof.InputWorkers)},
		pytorch:  f.PyTorch,
	})
}

// making is what sampling and collating one batch take, whoever does it.
func (s *scene) making() (sample, collate float64) {
	sample, collate = s.hostTime(s.stage(gpuprof.RoleSample)), s.hostTime(s.stage(gpuprof.RoleCollate))
	if sample+collate == 0 {
		sample, collate = s.figure(gpuprof.InputSampleS), s.figure(gpuprof.InputCollateS)
	}
	return sample, collate
}

// callerBound: the caller, who never waits for the device, cannot prepare
// batches as fast as it consumes them. A GPU may do some of it; where no knob helps the
// workload says what to try instead.
func (s *scene) callerBound() []gpuprof.Finding {
	if f, there := s.fix(workloads.CollateFaster); there && len(f.Targets) > 0 {
		return s.movedToDevice(f)
	}
	stCollate := s.stage(gpuprof.RoleCollate)
	study := s.stages[stCollate]
	if study.Try == "" || s.cpuShort() || len(s.stalls()) > 0 || s.exposed(stCollate) <= 0 {
		return nil
	}
	of := weights{stCollate: s.overlap()}
	return s.offer(advice{
		stage: stCollate, of: of, want: s.typical(of),
		evidence: map[string]any{"collate_exposed_s": s.exposed(stCollate), "collate_host_s": s.hostTime(stCollate)},
		command:  study.Try,
		pytorch:  study.PyTorch,
	})
}

// movedToDevice: the caller prepares what a GPU could, and the GPU waits for it. At most the
// exposed time of that stage goes; what the GPU then takes, this run does not say. The
// host device has no other processors than the caller's.
func (s *scene) movedToDevice(f fix) []gpuprof.Finding {
	stage := f.Targets[0].Stage
	if !s.cuda() || s.cpuShort() || s.exposed(stage) <= 0 {
		return nil
	}
	of := weights{stage: 1}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of), evidence: map[string]any{
		"collate_exposed_s": s.exposed(stage), "collate_host_s": s.hostTime(stage),
	}})
}
