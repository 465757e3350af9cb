package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Hint is a finding of the first measurement: knobs to change, and the largest possible saving in seconds per step.
type Hint struct {
	Rule   string           `json:"rule"`
	Knobs  gpuprof.Settings `json:"knobs"`
	ClaimS float64          `json:"claim_s"`
}

// RenameRule replaces an earlier version's rule id by the current one, and reports whether the id changed.
func (h *Hint) RenameRule() (changed bool) {
	was := h.Rule
	for _, knob := range slices.Sorted(maps.Keys(h.Knobs)) {
		h.Rule = gpuprof.RuleNow(h.Rule, h.Knobs[knob])
	}
	h.Rule = gpuprof.RuleNow(h.Rule, "")
	return h.Rule != was
}

// PeerLines compares other programs' recorded figures with gpuprof's of the same recording, a sentence each.
func (r *Result) PeerLines() []string {
	var out []string
	for _, p := range r.Peers {
		value := func(v float64) string { return gpuprof.FormatSI(v, p.Unit) }
		if p.Unit == "s" {
			value = gpuprof.FormatSeconds
		}
		day, _, _ := strings.Cut(p.Recorded, "T")
		out = append(out, fmt.Sprintf("%s: %s takes %s, gpuprof %s (recorded on %s, %s)", p.Figure, p.Name, value(p.Value), value(p.Ours), r.DeviceDoc, day))
	}
	return out
}

// OneTimeText describes the one-time cost of a setting and the number of steps that repay it; empty without a cost.
// The set-up time contains the other one-time costs.
func (r *Recommended) OneTimeText() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.OneTime)) {
		if k != "setup_s" {
			parts = append(parts, strings.TrimSuffix(k, "_s")+" "+gpuprof.FormatSeconds(r.OneTime[k]))
		}
	}
	text := strings.Join(parts, ", ")
	if whole, ok := r.OneTime["setup_s"]; ok {
		if text != "" {
			text = ", of which " + text
		}
		text = gpuprof.FormatSeconds(whole) + " of setting up" + text
	}
	if text != "" && r.PaybackSteps > 0 {
		text += fmt.Sprintf("; saved again after %.0f steps", r.PaybackSteps)
	}
	return text
}

// Better reports whether a verdict is an improvement.
func (v Verdict) Better() bool { return v == Faster || v == Less }
