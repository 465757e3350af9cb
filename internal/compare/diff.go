package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// The kinds of difference, in the order in which they serve as explanations of a change.
const (
	kindKnob        = "knob"
	kindEnvironment = "environment"
	kindCode        = "code"
)

// Differences lists the fields in which two results differ: knobs, then the machine facts that must agree, then other
// facts, then the code.
func Differences(old, new *Result) []Difference { return listDifferences(old, new, Options{}) }

// listDifferences lists the fields that differ, in the order of Differences; o names the fields that may differ.
func listDifferences(old, new *Result, o Options) []Difference {
	out := []Difference{}
	add := func(kind string, hard bool, a, b map[string]string) {
		for _, field := range sortedKeys(a, b) {
			if a[field] != b[field] {
				d := Difference{Field: field, Old: a[field], New: b[field], Hard: hard, Kind: kind}
				d.Allowed = hard && slices.Contains(o.AllowMismatch, field)
				out = append(out, d)
			}
		}
	}
	for _, model := range []bool{true, false} {
		// If only one side has a knob, the workloads or their versions differ.
		isModel := func(name string) bool { return old.Knobs[name].Model || new.Knobs[name].Model }
		only := func(r *Result) map[string]string {
			m := map[string]string{}
			for name, k := range r.Knobs {
				if isModel(name) == model {
					m[name] = k.Value
				}
			}
			return m
		}
		add(kindKnob, model || o.Judge, only(old), only(new))
	}
	add(kindEnvironment, true, old.Env, new.Env)
	add(kindEnvironment, false, old.Facts, new.Facts)
	add(kindCode, false, old.Code, new.Code)
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(kindRank(a), kindRank(b)), cmp.Compare(a.Field, b.Field))
	})
	return out
}

func kindRank(d Difference) int {
	rank := 2 * slices.Index([]string{kindKnob, kindEnvironment, kindCode}, d.Kind)
	if !d.Hard {
		rank++
	}
	return rank
}

func sortedKeys(a, b map[string]string) []string {
	all := maps.Collect(maps.All(a))
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// refusedFields returns the differences that forbid a comparison and that AllowMismatch does not list.
func refusedFields(diffs []Difference) []Difference {
	var out []Difference
	for _, d := range diffs {
		if d.Hard && !d.Allowed {
			out = append(out, d)
		}
	}
	return out
}

// checkAllowed returns an error for a name in AllowMismatch that neither side has. A misspelt name would allow nothing,
// and the intended field would still forbid the verdict.
func (b *comparisonState) checkAllowed() error {
	var known, differ []string
	for _, r := range []*Result{b.old, b.new} {
		for _, m := range []map[string]string{r.Env, r.Facts, r.Code} {
			known = slices.AppendSeq(known, maps.Keys(m))
		}
		known = slices.AppendSeq(known, maps.Keys(r.Knobs))
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, d := range b.diffs {
		differ = append(differ, d.Field)
	}
	for _, field := range b.o.AllowMismatch {
		if slices.Contains(known, field) {
			continue
		}
		have := "they differ in " + strings.Join(differ, ", ")
		if len(differ) == 0 {
			have = "they differ in nothing, and have " + strings.Join(known, ", ")
		}
		return gpuprof.Errorf(gpuprof.ErrUsage, "allowing a mismatch with --allow-mismatch %s: neither side has such a field%s", field, gpuprof.DidYouMean(field, known)).WithFix("%s", have)
	}
	return nil
}

func refusalText(diffs []Difference) string {
	var parts []string
	for _, d := range diffs {
		parts = append(parts, d.String())
	}
	return "the sides cannot be compared: " + strings.Join(parts, ", ")
}

// String formats a difference: "driver 550.1 -> 560.2".
func (d Difference) String() string {
	name := d.Field
	if d.Kind == kindKnob {
		name = "knob " + name
	}
	return fmt.Sprintf("%s %s -> %s", name, cmp.Or(d.Old, "unknown"), cmp.Or(d.New, "unknown"))
}

// joinParts joins several Results of one side: the processes of a gate's blocks, or a baseline's sessions. Run k of
// a metric holds all samples of parts[k], because one process is one run whatever it printed. If the parts disagree
// on a field, the field's values are joined, so that it differs from the other side and is reported.
func joinParts(parts []*Result) *Result {
	out := JoinHeads(parts)
	index := map[string]int{}
	for k, r := range parts {
		for _, m := range r.Metrics {
			i, ok := index[m.Name]
			if !ok {
				i = len(out.Metrics)
				index[m.Name] = i
				first := m
				first.Runs = make([][]float64, len(parts))
				out.Metrics = append(out.Metrics, first)
			}
			out.Metrics[i].Runs[k] = slices.Concat(m.Runs...)
			out.Metrics[i].SenderLate = out.Metrics[i].SenderLate || m.SenderLate
		}
		out.RunInfo = append(out.RunInfo, mergeRunInfo(r.RunInfo))
		out.Failed = unionStrings(out.Failed, r.Failed)
		for _, w := range r.Warnings {
			if !slices.ContainsFunc(out.Warnings, func(o gpuprof.Warning) bool { return o.Code == w.Code }) {
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	for i := range out.Metrics {
		if m := &out.Metrics[i]; m.Guessed {
			m.Exact = areAllEqual(m.Runs)
		}
	}
	return out
}

// JoinHeads joins several Results of one side, without metrics, runs, failures and warnings. The result has the fields
// of all parts (JoinFields), the status of the first incomplete part, and otherwise the values of the first part.
func JoinHeads(parts []*Result) *Result {
	out := *parts[0]
	out.Metrics, out.RunInfo, out.Failed, out.Warnings = nil, nil, nil, nil
	out.Env, out.Facts, out.Code, out.Knobs = map[string]string{}, map[string]string{}, map[string]string{}, map[string]Knob{}
	values := map[string]string{}
	for _, r := range parts {
		JoinFields(out.Env, r.Env)
		JoinFields(out.Facts, r.Facts)
		JoinFields(out.Code, r.Code)
		for name, k := range r.Knobs {
			JoinFields(values, map[string]string{name: k.Value})
			out.Knobs[name] = Knob{values[name], k.Model || out.Knobs[name].Model}
		}
		if out.isComplete() && !r.isComplete() {
			out.Status, out.Reason = r.Status, r.Reason
		}
	}
	return &out
}

func areAllEqual(runs [][]float64) bool {
	c, ok := stats.CountOf(slices.Concat(runs...))
	return ok && c.Steady
}

// JoinFields adds the fields of others to all. Different values within one side are joined, so that both are visible.
func JoinFields(all, others map[string]string) {
	for key, value := range others {
		for _, one := range strings.Split(value, "; ") {
			if old, ok := all[key]; !ok {
				all[key] = one
			} else if !slices.Contains(strings.Split(old, "; "), one) {
				all[key] = old + "; " + one
			}
		}
	}
}

func mergeRunInfo(infos []RunInfo) RunInfo {
	var out RunInfo
	for _, i := range infos {
		out.StartS = cmp.Or(out.StartS, i.StartS)
		out.Flagged += i.Flagged / float64(len(infos))
		out.Codes = append(out.Codes, i.Codes...)
	}
	slices.Sort(out.Codes)
	out.Codes = slices.Compact(out.Codes)
	return out
}
