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

// leastExplained is the share of the change from which on a stage is a finding.
const leastExplained = 0.1

// AgainstBaseline explains the difference that a comparison found, stage by
// stage: by the knobs that differ and can act on the stage first, by the
// environment second, by the code last. Where new is slower, a finding names the
// knob that would close the gap (From is new's value, To old's) and ClaimS is
// the stage's own change in seconds a step; where it is faster nothing is
// claimed. new is a result of gpuprof with its knobs, as compare.FromRun or
// results.Read make it. The findings are empty when nothing changed. o keeps the
// commands short, as for Findings.
func AgainstBaseline(c *compare.Comparison, old, new *compare.Result, o Options) []gpuprof.Finding {
	out := []gpuprof.Finding{}
	if c == nil || old == nil || new == nil || len(c.Causes) == 0 {
		return out
	}
	change := 0.0 // of the step
	for _, cause := range c.Causes {
		change = float64(cause.Change) / cause.ShareOfChange
		if !positive(math.Abs(change)) || !positive(math.Abs(cause.ShareOfChange)) {
			return out // not a change, or not a number
		}
	}
	for _, cause := range c.Causes {
		if cause.ShareOfChange >= leastExplained {
			out = append(out, explained(c, new, o, cause, change))
		}
	}
	sortByClaim(out)
	return out
}

// explained is the finding of one stage.
func explained(c *compare.Comparison, new *compare.Result, o Options, cause compare.Cause, change float64) gpuprof.Finding {
	kind, named := explainers(programOf(o.Workload), c.Differences, cause.Stage)
	f := gpuprof.Finding{Rule: gpuprof.RuleBaseline, Stage: cause.Stage, Evidence: map[string]any{
		"share_of_change": cause.ShareOfChange, "change_s": float64(cause.Change), "step_change_s": change,
	}}
	why := describe(kind, named, cause.Stage, cause.ShareOfChange)
	if back := otherWay(c.Causes); back >= leastExplained || cause.ShareOfChange > 1 {
		f.Evidence["share_other_way"] = back
		why += ", of which other stages took " + percent(back) + " back"
	}
	f.Evidence["explained_by"] = why
	if change > 0 {
		f.ClaimS = max(0, float64(cause.Change))
	}
	switch kind {
	case "knob":
		f.Knob, f.From, f.To = named[0].Field, named[0].New, named[0].Old
		if change < 0 { // the gap is already closed: this is what closed it
			f.From, f.To = named[0].Old, named[0].New
		}
		if len(named) > 1 {
			f.Evidence["or"] = fields(named[1:])
		}
		f.Command = againstCommand(new, o, named)
		f.PyTorch = programOf(o.Workload).adviceFor(f.Knob, f.To)
		if new.Knobs[f.Knob].Model { // another computation is no way to close a gap
			f.Knob, f.From, f.To, f.PyTorch = "", "", "", ""
		}
	case "environment":
		f.Command = "gpuprof doctor"
	case "seed": // no code, and no revision to measure against
		f.Command = codeCommand(new, o, nil)
	default:
		f.Command = codeCommand(new, o, named)
	}
	return f
}

// otherWay is the share of the change that stages gave back which changed
// against it: the others' shares add up to that much more than all of it.
func otherWay(causes []compare.Cause) float64 {
	back := 0.0
	for _, c := range causes {
		back += max(0, -c.ShareOfChange)
	}
	return back
}

// explainers are the differences that can have changed a stage, of the first
// kind there is: knobs known to act on this stage, then knobs of which that is
// not known, then the environment, then the code, and the seed of the input last.
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

// describe says in words what explains a stage's part.
func describe(kind string, named []compare.Difference, stage string, share float64) string {
	part := stage + " explains " + percent(share) + " of the change"
	switch kind {
	case "knob":
		var words []string
		for _, d := range named {
			words = append(words, d.Field+" is "+cmp.Or(d.New, "unknown")+" here and "+cmp.Or(d.Old, "unknown")+" in the baseline")
		}
		return strings.Join(words, ", or ") + "; " + part
	case "environment", "code":
		return kind + " differs (" + strings.Join(fields(named), ", ") + "); " + part
	}
	if kind == "seed" {
		return "nothing recorded differs but the input (" + strings.Join(fields(named), ", ") + "); " + part
	}
	return "nothing recorded differs; " + part
}

func fields(diffs []compare.Difference) []string {
	out := make([]string, len(diffs))
	for i, d := range diffs {
		out[i] = d.Field + " " + cmp.Or(d.Old, "unknown") + " -> " + cmp.Or(d.New, "unknown")
	}
	return out
}

func percent(share float64) string { return text(int(math.Round(100*share))) + " %" }

// againstCommand measures the new side's setting with each knob in question at
// either side's value.
func againstCommand(r *compare.Result, o Options, named []compare.Difference) string {
	change := gpuprof.Settings{}
	for _, d := range named {
		if d.Old == "" || d.New == "" {
			continue // one side's workload has no such knob
		}
		change[d.Field] = d.Old
	}
	return commandOf(runOf(r), o.on(r), change)
}

// runOf is what of a run its command needs.
func runOf(r *compare.Result) *gpuprof.Run {
	run := &gpuprof.Run{Workload: r.Workload, Preset: r.Preset, Mode: gpuprof.Mode(r.Env["mode"]), Seed: seedOf(r), Knobs: gpuprof.Settings{}}
	for name, k := range r.Knobs {
		run.Knobs[name] = k.Value
	}
	return run
}

// on names the device where it is the host's: elsewhere a run would take a GPU,
// and gate takes nothing by itself.
func (o Options) on(r *compare.Result) Options {
	if r.Env["device_kind"] == "host" && !slices.Contains(o.Flags, "--device") {
		o.Flags = append(slices.Clone(o.Flags), "--device", "host")
	}
	return o
}

// codeCommand measures both versions of the code in one job. Of a working tree
// with changes only the commit below them can be had again.
func codeCommand(r *compare.Result, o Options, named []compare.Difference) string {
	run, o := runOf(r), o.on(r)
	for _, d := range named {
		commit := d.Old
		for _, changed := range []string{"-dirty", "-modified"} {
			commit = strings.TrimSuffix(commit, changed)
		}
		if d.Field == "commit" && commit != "" && commit != "unknown" {
			run.Mode, run.Seed = "", 1 // gate has no such choice
			return strings.Replace(commandOf(run, o, nil), "gpuprof run", "gpuprof gate", 1) + " --against " + gpuprof.ShellWord(commit)
		}
	}
	return commandOf(run, o, nil) + " --runs 6"
}

// seedOf is the seed a result was measured with, 1 when unknown.
func seedOf(r *compare.Result) uint64 {
	n, err := strconv.ParseUint(r.Facts["seed"], 10, 64)
	if err != nil {
		return 1
	}
	return n
}
