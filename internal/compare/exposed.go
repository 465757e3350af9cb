package compare

import "slices"

// exposedRule is the key in Result.Code of the rule that assigns the overlap of two stages to one of them. By the
// present rule, computeFirst, compute takes its overlap with copies. Runs before schema 1.1 lack the key. They assigned
// the overlap of a copy with a kernel to the stage that comes first in the step.
const (
	exposedRule  = "exposed_time"
	computeFirst = "compute before copies"
)

// alikeStages returns both sides. If they assign overlapping time to stages by different rules, it removes the stages
// of both and left is true.
func alikeStages(old, new *Result) (o, n *Result, left bool) {
	if len(old.Stages) == 0 || len(new.Stages) == 0 || old.Code[exposedRule] == new.Code[exposedRule] {
		return old, new, false
	}
	return dropStages(old), dropStages(new), true
}

func dropStages(r *Result) *Result {
	out := *r
	out.Stages = nil
	out.Metrics = slices.DeleteFunc(slices.Clone(r.Metrics), func(m MetricData) bool { return slices.Contains(r.Stages, m.Name) })
	return &out
}

func (b *comparisonState) warnStages() {
	b.addWarning("stages-not-compared", "the exposed times of the stages are not compared: one side was recorded before a copy beside a kernel was counted as hidden",
		"record the older side again; the step itself is compared as before")
}
