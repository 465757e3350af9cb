package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
)

// readHints measures the starting point and stores the knobs that its findings name. It does nothing if a resumed
// search has stored them, the budget is too small, or the goal is memory: findings are about time.
func (e *engine) readHints() error {
	limit := min(mostFindings, time.Duration(findingsShare*float64(e.Budget)))
	if e.Findings == nil || e.Goal == tune.Memory || e.out.Findings != nil || limit < leastFindings || e.timeLeft(findingsShare) <= 0 {
		return nil
	}
	e.reportProgress("screening", "findings about the start")
	found, err := e.Findings(e.ctx, limit)
	if ctxErr := e.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	e.out.Findings = []tune.Hint{}
	if err == nil {
		for _, h := range found {
			e.out.Findings = append(e.out.Findings, tune.Hint{Rule: h.Rule, Knobs: canonicalSettings(e.Workload, h.Knobs), ClaimS: h.ClaimS})
		}
	}
	return nil // saved together with the first comparison
}

// canonicalSettings returns values in the workload's spelling; it drops unknown knobs and values.
func canonicalSettings(w workloads.Workload, set gpuprof.Settings) gpuprof.Settings {
	out := gpuprof.Settings{}
	for _, k := range w.Knobs() {
		if to, there := set[k.Name]; there {
			if v, err := k.Canonical(to); err == nil {
				out[k.Name] = v
			}
		}
	}
	return out
}

// orderChanges moves the changes that findings name to the front, in the findings' order. It adds a named value that
// is not among the changes if its knob may be changed.
func orderChanges(w workloads.Workload, changes []Change, found []tune.Hint, base gpuprof.Settings) []Change {
	var first []Change
	for _, h := range found {
		for _, k := range w.Knobs() {
			to, asked := h.Knobs[k.Name]
			if !asked || !hasKnob(changes, k.Name) {
				continue
			}
			if c := (Change{k.Name, base[k.Name], to}); to != c.From && !slices.Contains(first, c) {
				first = append(first, c)
			}
		}
	}
	rest := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return slices.Contains(first, c) })
	return append(first, rest...)
}

// isNamed reports whether a finding names exactly this change.
func (e *engine) isNamed(c Change) bool {
	return slices.ContainsFunc(e.out.Findings, func(h tune.Hint) bool { return h.Knobs[c.Knob] == c.To })
}

// fixedFindings lists the findings whose knobs this search may not change, or "".
func (e *engine) fixedFindings() string {
	var parts, knobs []string
	for _, h := range e.out.Findings {
		for _, knob := range slices.Sorted(maps.Keys(h.Knobs)) {
			if h.Knobs[knob] != e.base[knob] && !slices.ContainsFunc(e.alts, func(a alternative) bool { return a.Knob == knob }) {
				parts, knobs = append(parts, fmt.Sprintf("%s (finding %s)", tune.DescribeSettings(gpuprof.Settings{knob: h.Knobs[knob]}), h.Rule)), append(knobs, knob)
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not tried, because --set or --knob leaves it out: " + strings.Join(parts, ", ") + "; to try that give --knob " + strings.Join(append(slices.Clone(e.Only), knobs...), ",")
}
