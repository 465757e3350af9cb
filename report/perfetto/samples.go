package perfetto

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// catSample is PyTorch's category of the profiler's own span. Readers do not count it as work of the step.
const catSample = "trace"

// sample is a measured step. Its times are ns from the file's start.
type sample struct {
	start, end int64
	text       string
	block      int
	flags      []string
}

func (s sample) span() (int64, int64) { return s.start, s.end }

// writeSamples writes every sample at its time in the run, above the telemetry. It returns the end of the last sample,
// ns, and the number of samples for which there was no row. It writes none if the run's list of start times does not
// match its samples.
func writeSamples(e *encoder, r *gpuprof.Run, run int, base int64) (end int64, left int) {
	split, left := nestRows(pairSamples(r, base))
	end = base
	for i, row := range split {
		tid, name := tidSamples+i, "samples, at their time in the run"
		if i > 0 {
			name += fmt.Sprintf(", overlapping %d", i+1)
		}
		e.nameThread(hostPid(run), tid, name)
		for _, s := range row {
			args := []arg{{"block", s.block}}
			if len(s.flags) > 0 {
				args = append(args, arg{"flags", strings.Join(s.flags, ", ")})
			}
			e.writeEvent(&event{ph: 'X', name: s.text, cat: catSample, pid: hostPid(run), tid: tid, start: s.start, dur: s.end - s.start, args: args})
			end = max(end, s.end)
		}
	}
	return end, left
}

// pairSamples pairs the start times of samples with their lengths; nil if their numbers differ.
func pairSamples(r *gpuprof.Run, base int64) []sample {
	lengths := map[int][]float64{gpuprof.SideProbed: concatRuns(r.Step), gpuprof.SideBare: concatRuns(r.BareStep)}
	var out []sample
	next := map[int]int{}
	for i, o := range r.Order {
		n := next[o.Side]
		next[o.Side]++
		if n >= len(lengths[o.Side]) {
			return nil
		}
		start, ok1 := secondsToNS(o.StartS)
		dur, ok2 := secondsToNS(lengths[o.Side][n])
		if !ok1 || !ok2 || start < 0 || dur < 0 {
			continue
		}
		s := sample{start: base + start, end: base + start + dur, text: "step", block: o.Block}
		if o.Side == gpuprof.SideBare {
			s.text = "bare step"
		}
		if i < len(r.Flags) {
			for _, f := range r.Flags[i] {
				s.flags = append(s.flags, view.Cut(f, 60))
			}
		}
		out = append(out, s)
	}
	for side, n := range next {
		if n != len(lengths[side]) {
			return nil
		}
	}
	return out
}

func concatRuns(s *gpuprof.Series) []float64 {
	if s == nil {
		return nil
	}
	return slices.Concat(s.Runs...)
}
