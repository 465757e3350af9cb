package advise

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/workloads"
)

// leastExplained is the least share of the change for which a stage becomes a finding.
const leastExplained = 0.1

// AgainstBaseline explains, stage by stage, the difference that a comparison found: first by the knobs that differ
// and act on the stage, then by the environment, last by the code. If new is slower, a finding names the knob that
// would close the gap: From is new's value, To old's. ClaimS is the stage's own change in seconds per step. If new is
// faster, nothing is claimed. new is a result of gpuprof with its knobs, from compare.FromRun or results.Read.
// The findings are empty if nothing changed. o shortens the commands, as in Findings.
func AgainstBaseline(c *compare.Comparison, old, new *compare.Result, o Options) []gpuprof.Finding {
	out := []gpuprof.Finding{}
	if c == nil || old == nil || new == nil || len(c.Causes) == 0 {
		return out
	}
	change := 0.0 // of the step, in seconds
	for _, cause := range c.Causes {
		change = float64(cause.Change) / cause.ShareOfChange
		if !positive(math.Abs(change)) || !positive(math.Abs(cause.ShareOfChange)) {
			return out // no change, or NaN
		}
	}
	for _, cause := range c.Causes {
		if cause.ShareOfChange >= leastExplained {
			out = append(out, explainStage(c, new, o, cause, change))
		}
	}
	sortByClaim(out)
	return out
}

func explainStage(c *compare.Comparison, new *compare.Result, o Options, cause compare.Cause, change float64) gpuprof.Finding {
	kind, named := explainers(programOf(o.Workload), c.Differences, cause.Stage)
	f := gpuprof.Finding{Rule: gpuprof.RuleBaseline, Stage: cause.Stage, Evidence: map[string]any{
		"share_of_change": cause.ShareOfChange, "change_s": float64(cause.Change), "step_change_s": change,
	}}
	why := describeCause(kind, named, cause.Stage, cause.ShareOfChange)
	if back := opposedShare(c.Causes); back >= leastExplained || cause.ShareOfChange > 1 {
		f.Evidence["share_other_way"] = back
		why += ", of which other stages took " + formatPercent(back) + " back"
	}
	f.Evidence["explained_by"] = why
	if change > 0 {
		f.ClaimS = max(0, float64(cause.Change))
	}
	switch kind {
	case "knob":
		f.Knob, f.From, f.To = named[0].Field, named[0].New, named[0].Old
		if change < 0 { // new is faster: this change made it so
			f.From, f.To = named[0].Old, named[0].New
		}
		if len(named) > 1 {
			f.Evidence["or"] = describeDifferences(named[1:])
		}
		f.Command = againstCommand(new, o, named)
		f.PyTorch = programOf(o.Workload).adviceFor(f.Knob, f.To)
		if new.Knobs[f.Knob].Model { // a model knob changes the computation, so it is no remedy
			f.Knob, f.From, f.To, f.PyTorch = "", "", "", ""
		}
	case "environment":
		f.Command = "gpuprof doctor"
	case "seed": // the seed is not part of the code, so there is no revision to measure against
		f.Command = codeCommand(new, o, nil)
	default:
		f.Command = codeCommand(new, o, named)
	}
	return f
}

// opposedShare returns the share of the change that other stages cancelled by changing in the other direction; the
// positive shares exceed 1 by this amount.
func opposedShare(causes []compare.Cause) float64 {
	back := 0.0
	for _, c := range causes {
		back += max(0, -c.ShareOfChange)
	}
	return back
}

// explainers returns the differences that can have changed a stage, all of one kind. It tries these kinds in order and
// returns the first with any difference: knobs that act on the stage, knobs without declared stages, the environment,
// the code, the seed of the input.
func explainers(p *program, diffs []compare.Difference, stage string) (kind string, named []compare.Difference) {
	var apt, general []compare.Difference
	for _, d := range diffs {
		if d.Kind != "knob" {
			continue
		}
		switch acts := p.knob(d.Field).Acts; {
		case acts == nil:
			general = append(general, d)
		case slices.Contains(acts, workloads.AllStages) || slices.Contains(acts, stage):
			apt = append(apt, d)
		}
	}
	if len(apt) > 0 {
		return "knob", apt
	}
	if len(general) > 0 {
		return "knob", general
	}
	for _, kind := range []string{"environment", "code"} {
		for _, d := range diffs {
			if d.Kind == kind && d.Field != "seed" {
				named = append(named, d)
			}
		}
		if len(named) > 0 {
			return kind, named
		}
	}
	if i := slices.IndexFunc(diffs, func(d compare.Difference) bool { return d.Field == "seed" }); i >= 0 {
		return "seed", diffs[i : i+1]
	}
	return "", nil
}

func describeCause(kind string, named []compare.Difference, stage string, share float64) string {
	part := stage + " explains " + formatPercent(share) + " of the change"
	switch kind {
	case "knob":
		var words []string
		for _, d := range named {
			words = append(words, d.Field+" is "+cmp.Or(d.New, "unknown")+" here and "+cmp.Or(d.Old, "unknown")+" in the baseline")
		}
		return strings.Join(words, ", or ") + "; " + part
	case "environment", "code":
		return kind + " differs (" + strings.Join(describeDifferences(named), ", ") + "); " + part
	case "seed":
		return "nothing recorded differs but the input (" + strings.Join(describeDifferences(named), ", ") + "); " + part
	}
	return "nothing recorded differs; " + part
}

func describeDifferences(diffs []compare.Difference) []string {
	out := make([]string, len(diffs))
	for i, d := range diffs {
		out[i] = d.Field + " " + cmp.Or(d.Old, "unknown") + " -> " + cmp.Or(d.New, "unknown")
	}
	return out
}

func formatPercent(share float64) string { return strconv.Itoa(int(math.Round(100*share))) + " %" }

// againstCommand returns the command that measures the new side's settings, with each differing knob at the values of
// both sides.
func againstCommand(r *compare.Result, o Options, named []compare.Difference) string {
	change := gpuprof.Settings{}
	for _, d := range named {
		if d.Old == "" || d.New == "" {
			continue // one side's workload has no such knob
		}
		change[d.Field] = d.Old
	}
	return commandOf(runOf(r), o.deviceOptions(r), change)
}

// runOf returns the fields of a result that its command needs, as a run.
func runOf(r *compare.Result) *gpuprof.Run {
	run := &gpuprof.Run{Workload: r.Workload, Preset: r.Preset, Mode: gpuprof.Mode(r.Env["mode"]), Seed: seedOf(r), Knobs: gpuprof.Settings{}}
	for name, k := range r.Knobs {
		run.Knobs[name] = k.Value
	}
	return run
}

// deviceOptions adds "--device host" for a result of the host device: without it run would choose a GPU, and gate
// would not choose a device.
func (o Options) deviceOptions(r *compare.Result) Options {
	if r.Env["device_kind"] == "host" && !slices.Contains(o.Flags, "--device") {
		o.Flags = append(slices.Clone(o.Flags), "--device", "host")
	}
	return o
}

// codeCommand returns the command that measures both versions of the code in one job. A working tree with changes
// cannot be checked out again, so the command uses the commit below the changes.
func codeCommand(r *compare.Result, o Options, named []compare.Difference) string {
	run, o := runOf(r), o.deviceOptions(r)
	for _, d := range named {
		commit := d.Old
		for _, changed := range []string{"-dirty", "-modified"} {
			commit = strings.TrimSuffix(commit, changed)
		}
		if d.Field == "commit" && commit != "" && commit != "unknown" {
			run.Mode, run.Seed = "", 1 // gate has neither option
			return strings.Replace(commandOf(run, o, nil), "gpuprof run", "gpuprof gate", 1) + " --against " + gpuprof.ShellWord(commit)
		}
	}
	return commandOf(run, o, nil) + " --runs 6"
}

// seedOf returns the seed of a result, 1 when unknown.
func seedOf(r *compare.Result) uint64 {
	n, err := strconv.ParseUint(r.Facts["seed"], 10, 64)
	if err != nil {
		return 1
	}
	return n
}
