package memsnap

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// allocConf is the environment variable with the settings of PyTorch's allocator.
const allocConf = "PYTORCH_CUDA_ALLOC_CONF="

// isExpandable reports whether expandable_segments is on, by the snapshot's settings text if that names it, else by the
// snapshot's member.
func (s *Settings) isExpandable() bool {
	for _, m := range parts.FindAllStringSubmatch(s.Text, -1) {
		if m[1] == expandableName {
			return strings.EqualFold(strings.TrimSpace(m[2]), "true")
		}
	}
	return s.Expandable
}

// expandableLine returns a PYTORCH_CUDA_ALLOC_CONF that adds expandable_segments to the file's settings.
func (s *Settings) expandableLine() string {
	return (&WhatIf{Setting: expandableName + ":True"}).confLine(s)
}

// bestSetting returns the setting with the lowest upper bound of the reserved peak; nil if none is below the recorded
// peak. Changes of the program do not count.
func (d *Device) bestSetting() *WhatIf {
	var best *WhatIf
	for i := range d.WhatIf {
		w := &d.WhatIf[i]
		if w.advice && w.PeakReserved < d.WhatIf[0].PeakReserved && (best == nil || w.PeakReserved < best.PeakReserved) {
			best = w
		}
	}
	return best
}

// confLine returns a PYTORCH_CUDA_ALLOC_CONF with the change w made to the file's settings.
func (w *WhatIf) confLine(s *Settings) string {
	if name, without := strings.CutPrefix(w.Setting, "without "); without {
		return allocConf + s.removeSetting(name) + "  # without " + name
	}
	name, _, _ := strings.Cut(w.Setting, ":")
	if rest := s.removeSetting(name); rest != "" {
		return allocConf + w.Setting + "," + rest
	}
	return allocConf + w.Setting
}

// parts matches settings in a text, as name and value; lists are in brackets.
var parts = lazyregexp.New(`([A-Za-z0-9_]+):((?:\[[^\]]*\]|[^,\[])*)`)

func (s *Settings) removeSetting(name string) string {
	var kept []string
	for _, m := range parts.FindAllStringSubmatch(s.Text, -1) {
		if m[1] != name {
			kept = append(kept, m[0])
		}
	}
	return strings.Join(kept, ",")
}

// megabytesOf returns the value of a setting that only the settings text has, converted from MiB to bytes; 0 if absent.
func (s *Settings) megabytesOf(name string) int64 {
	for _, m := range parts.FindAllStringSubmatch(s.Text, -1) {
		if n, err := strconv.ParseInt(strings.TrimSpace(m[2]), 10, 64); m[1] == name && err == nil && n > 0 && n <= mostMegabytes {
			return n << 20
		}
	}
	return 0
}

// leastLoss is the smallest share of the reserved peak lost to fragmentation that makes a finding: a caching allocator
// always keeps parts of segments free. leastLossOOM is for programs with a failed request.
const (
	leastLoss    = 0.10
	leastLossOOM = 0.05
)

func findFragmentation(c *ruleInput) (Finding, bool) {
	set := &c.r.S.Settings
	loss, least := c.PeakReserved-c.PeakRounded, leastLoss
	if len(c.OOMs) > 0 {
		least = leastLossOOM
	}
	if c.PeakReserved == 0 || float64(loss) < least*float64(c.PeakReserved) || set.isExpandable() || c.Events == 0 || strings.Contains(set.Text, "backend:cudaMallocAsync") {
		return Finding{}, false
	}
	if c.mapped < loss && len(c.OOMs) == 0 {
		return Finding{}, false // part of the loss was reserved before the recording, for requests that are not recorded
	}
	f := Finding{Rule: gpuprof.RuleFragmentation, Of: ofReserved, ClaimBytes: loss,
		Title:    fmt.Sprintf("The allocator reserved %s at most, and live tensors never took more than %s of it.", bytesText(c.PeakReserved), bytesText(c.PeakRounded)),
		Evidence: map[string]any{"peak_reserved_bytes": c.PeakReserved, "peak_live_bytes": c.PeakRounded},
		PyTorch:  set.expandableLine(), Caveats: []string{"no allocator with the same sizes of blocks could save more; the setting mostly saves a part of it"}}
	if !c.Check.Passed {
		return f, true
	}
	best := c.bestSetting()
	if best == nil {
		return Finding{}, false
	}
	f.ClaimBytes = c.WhatIf[0].PeakReserved - best.LeastReserved
	f.Title += fmt.Sprintf(" With %s it reserves %s for the same requests.", best.Setting, best.reservedText())
	f.Evidence["setting"], f.Evidence["predicted_reserved_bytes"] = best.Setting, best.PeakReserved
	f.Evidence["driver_allocs"], f.Evidence["predicted_driver_allocs"] = c.WhatIf[0].DriverAllocs, best.DriverAllocs
	f.PyTorch = best.confLine(set)
	f.Caveats = []string{"the replay has the same requests in the same order; a library that asks how much is free can ask for other sizes"}
	if c.trims > 0 {
		f.Caveats = append(f.Caveats, "calls of empty_cache that returned nothing are not in the file, and would return memory under another setting")
	}
	return f, true
}

// reservedText formats the peak of a setting, as a range if uncertain.
func (w *WhatIf) reservedText() string {
	if w.LeastReserved == w.PeakReserved {
		return bytesText(w.PeakReserved)
	}
	return bytesText(w.LeastReserved) + " to " + bytesText(w.PeakReserved)
}

// addServing adds the settings under which the failed request succeeds, and reports whether there are any.
func (c *ruleInput) addServing(f *Finding) bool {
	if len(c.WhatIf) == 0 || c.WhatIf[0].OOM == nil {
		return false
	}
	var names []string
	for i := range c.WhatIf {
		w := &c.WhatIf[i]
		if *w.OOM || !w.advice {
			continue
		}
		if names = append(names, w.Setting); len(names) == 1 {
			f.PyTorch = w.confLine(&c.r.S.Settings)
		}
	}
	if len(names) == 0 {
		f.Caveats = append(f.Caveats, "with no setting that was replayed the request would have been served")
		return false
	}
	f.Title += " It is served with " + names[0] + "."
	f.Evidence["served_with"] = strings.Join(names, ", ")
	return true
}

// findSettingInert finds settings without effect on driver calls. Without a memory limit the replay ignores
// garbage_collection_threshold; a replay that still matches the recording shows that the setting has no effect.
func findSettingInert(c *ruleInput) (Finding, bool) {
	if !c.Check.Passed || len(c.WhatIf) == 0 || !c.WhatIf[0].Exact {
		return Finding{}, false
	}
	var names []string
	own := c.WhatIf[0]
	for _, w := range c.WhatIf[1:] {
		name, without := strings.CutPrefix(w.Setting, withoutPrefix)
		w.Setting, w.OOM, w.PeakLive, w.advice = own.Setting, own.OOM, own.PeakLive, own.advice
		if without && w == own {
			names = append(names, name)
		}
	}
	if c.r.S.Settings.Collection > 0 && c.allowed == 0 {
		names = append(names, "garbage_collection_threshold")
	}
	if len(names) == 0 {
		return Finding{}, false
	}
	left := c.r.S.Settings
	for _, name := range names {
		left.Text = left.removeSetting(name)
	}
	verb := "changes"
	if len(names) > 1 {
		verb = "change"
	}
	return Finding{Rule: gpuprof.RuleSettingInert, Of: ofReserved,
		Title:    fmt.Sprintf("%s %s nothing: without it the allocator makes the same calls of the driver.", strings.Join(names, " and "), verb),
		Evidence: map[string]any{"settings": c.r.S.Settings.Text, "driver_allocs": own.DriverAllocs, "driver_frees": own.DriverFrees},
		PyTorch:  allocConf + left.Text + "  # without " + strings.Join(names, ", "),
		Caveats:  []string{"garbage_collection_threshold acts only beside torch.cuda.set_per_process_memory_fraction"}}, true
}
