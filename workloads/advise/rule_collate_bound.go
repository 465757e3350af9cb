package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findCollateBound reports that the device waits for batches, mostly for collating them element by element.
func (s *runContext) findCollateBound() []gpuprof.Finding {
	stStarved := s.stage(gpuprof.RoleInput)
	if stStarved == "" {
		return s.callerBound()
	}
	sample, collate := s.batchTime()
	f, there := s.firstFix(workloads.CollateFaster)
	if !there || collate <= 0 || s.hostShort() {
		return nil
	}
	of := weights{stStarved: collate / (sample + collate)}
	want := s.typical(of)
	if w := s.figure(gpuprof.InputWorkers); w > 0 { // sampling still takes time
		want = min(s.exposed(stStarved), s.step-sample/w)
		of[stStarved] = 1
	}
	return s.offer(advice{
		stage: s.stage(gpuprof.RoleCollate), knob: f.knob, to: f.To, of: of, want: want,
		evidence: map[string]any{"starved_exposed_s": s.exposed(stStarved), "collate_s": collate, "sample_s": sample, gpuprof.InputWorkers: s.figure(gpuprof.InputWorkers)},
		pytorch:  f.PyTorch,
	})
}

// batchTime returns the seconds to sample and to collate one batch, on any thread.
func (s *runContext) batchTime() (sample, collate float64) {
	sample, collate = s.hostTime(s.stage(gpuprof.RoleSample)), s.hostTime(s.stage(gpuprof.RoleCollate))
	if sample+collate == 0 {
		sample, collate = s.figure(gpuprof.InputSampleS), s.figure(gpuprof.InputCollateS)
	}
	return sample, collate
}

// callerBound reports a caller that never waits for the device but prepares batches more slowly than the device
// consumes them. A GPU may take over a part; if no knob helps, the stage's Try text is the advice.
func (s *runContext) callerBound() []gpuprof.Finding {
	if f, there := s.firstFix(workloads.CollateFaster); there && len(f.Targets) > 0 {
		return s.movedToDevice(f)
	}
	stCollate := s.stage(gpuprof.RoleCollate)
	study := s.stages[stCollate]
	if study.Try == "" || s.cpuShort() || len(s.findStalls()) > 0 || s.exposed(stCollate) <= 0 {
		return nil
	}
	of := weights{stCollate: s.overlapShare()}
	return s.offer(advice{
		stage: stCollate, of: of, want: s.typical(of),
		evidence: map[string]any{"collate_exposed_s": s.exposed(stCollate), "collate_host_s": s.hostTime(stCollate)},
		command:  study.Try,
		pytorch:  study.PyTorch,
	})
}

// movedToDevice reports a stage that the caller runs although a GPU could, while the GPU waits for it. The claim is
// at most the exposed time of that stage; this run did not measure its time on the GPU. On the host device nothing is
// claimed: it has no processors besides the caller's.
func (s *runContext) movedToDevice(f fix) []gpuprof.Finding {
	stage := f.Targets[0].Stage
	if !s.cuda() || s.cpuShort() || s.exposed(stage) <= 0 {
		return nil
	}
	of := weights{stage: 1}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of), evidence: map[string]any{
		"collate_exposed_s": s.exposed(stage), "collate_host_s": s.hostTime(stage),
	}})
}
