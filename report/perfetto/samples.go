package perfetto

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// catSample is PyTorch's category of the profiler's own span, so that a reader
// of its traces does not take the samples for work of the example step.
const catSample = "trace"

// sample is one measured step, in ns from the file's beginning.
type sample struct {
	start, end int64
	text       string
	block      int
	flags      []string
}

func (s sample) span() (int64, int64) { return s.start, s.end }

// writeSamples writes every sample at its time in the run, beside the
// telemetry, and returns the end and how many found no row. A run whose list
// of times does not fit its samples has none.
func writeSamples(e *encoder, r *gpuprof.Run, run int, base int64) (end int64, left int) {
	split, left := rows(samples(r, base))
	end = base
	for i, row := range split {
		tid, name := tidSamples+i, "samples, at their time in the run"
		if i > 0 {
			name += fmt.Sprintf(", overlapping %d", i+1)
		}
		e.thread(hostPid(run), tid, name)
		for _, s := range row {
			args := []arg{{"block", s.block}}
			if len(s.flags) > 0 {
				args = append(args, arg{"flags", strings.Join(s.flags, ", ")})
			}
			e.event(&event{ph: 'X', name: s.text, cat: catSample, pid: hostPid(run), tid: tid, start: s.start, dur: s.end - s.start, args: args})
			end = max(end, s.end)
		}
	}
	return end, left
}

// samples pairs the times at which samples were taken with their lengths.
func samples(r *gpuprof.Run, base int64) []sample {
	lengths := map[int][]float64{gpuprof.SideProbed: flat(r.Step), gpuprof.SideBare: flat(r.BareStep)}
	var out []sample
	next := map[int]int{}
	for i, o := range r.Order {
		n := next[o.Side]
		next[o.Side]++
		if n >= len(lengths[o.Side]) {
			return nil
		}
		start, ok1 := nanos(o.StartS)
		dur, ok2 := nanos(lengths[o.Side][n])
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

func flat(s *gpuprof.Series) []float64 {
	if s == nil {
		return nil
	}
	return slices.Concat(s.Runs...)
}
