package advise

import "github.com/gpuprof/gpuprof"

// collateBound: the device waits for batches, and most of a batch's time goes
// into collating it element by element.
func (s *scene) collateBound() []gpuprof.Finding {
	if s.run.Workload != "collate" {
		return s.callerBound()
	}
	sample, collate := s.making()
	if !s.has("impl", "naive") || collate <= 0 || s.hostShort() {
		return nil
	}
	of := weights{stStarved: collate / (sample + collate)}
	want := s.typical(of)
	if w := s.figure("workers"); w > 0 { // whoever samples still has to
		want = min(s.exposed(stStarved), s.step-sample/w)
		of[stStarved] = 1
	}
	return s.offer(advice{
		stage: stCollate, knob: "impl", to: "cached", of: of, want: want,
		evidence: map[string]any{"starved_exposed_s": s.exposed(stStarved), "collate_s": collate, "sample_s": sample, "workers": s.figure("workers")},
		pytorch:  "collate_fn: fill preallocated arrays with block copies and call torch.from_numpy once a field; no list.append and no torch.tensor(list)",
	})
}

// making is what sampling and collating one batch take, whoever does it.
func (s *scene) making() (sample, collate float64) {
	sample, collate = s.hostTime(stSample), s.hostTime(stCollate)
	if sample+collate == 0 {
		sample, collate = s.figure("make_sample_s"), s.figure("make_collate_s")
	}
	return sample, collate
}

// callerBound: the caller, who never waits for the device, cannot prepare
// batches as fast as it consumes them. No knob of these workloads helps; the
// collate workload shows what workers would.
func (s *scene) callerBound() []gpuprof.Finding {
	if s.cpuShort() || len(s.stalls()) > 0 || s.exposed(stCollate) <= 0 {
		return nil
	}
	of := weights{stCollate: s.overlap()}
	return s.offer(advice{
		stage: stCollate, of: of, want: s.typical(of),
		evidence: map[string]any{"collate_exposed_s": s.exposed(stCollate), "collate_host_s": s.hostTime(stCollate)},
		command:  "gpuprof run collate --set workers=0,1,2,4",
		pytorch:  pytorchOf("workers"),
	})
}
