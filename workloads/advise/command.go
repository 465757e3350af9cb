package advise

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// sweepCommand returns the command that measures the run's setting and the given other values (knob=value), with
// everything else unchanged. Values of several knobs form a grid, which shows interactions.
func (s *runContext) sweepCommand(change ...string) string {
	both := gpuprof.Settings{}
	for _, c := range change {
		knob, to, _ := strings.Cut(c, "=")
		both[knob] = to
	}
	return commandOf(s.run, s.o, both)
}

// commandOf returns the run's own command; each knob in change gets its own value and the value in change.
func commandOf(r *gpuprof.Run, o Options, change gpuprof.Settings) string {
	args := []string{"gpuprof", "run", r.Workload}
	if r.Preset != "" {
		args = append(args, "--preset", r.Preset)
	}
	if r.Mode != "" && r.Mode != gpuprof.Steady {
		args = append(args, "--mode", string(r.Mode))
	}
	if r.Seed != 1 {
		args = append(args, "--seed", strconv.FormatUint(r.Seed, 10))
	}
	args = append(args, o.Flags...)
	for _, knob := range slices.Sorted(maps.Keys(r.Knobs)) {
		if _, swept := change[knob]; !swept && (o.Base == nil || o.Base[knob] != r.Knobs[knob]) {
			args = append(args, "--set", knob+"="+r.Knobs[knob])
		}
	}
	for _, knob := range slices.Sorted(maps.Keys(change)) {
		args = append(args, "--set", knob+"="+r.Knobs[knob]+","+change[knob])
	}
	for i := range args {
		args[i] = gpuprof.ShellWord(args[i])
	}
	return strings.Join(args, " ")
}
