package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// LeastShare is the least share of the step that a finding must save. Smaller savings are below measurement noise.
const LeastShare = 0.005

// boundKinds lists the resources that can bound a program, each with the classes and idle states whose time it causes.
// Elementwise kernels count for memory: they move more bytes than they compute on every device. Matrix products count
// for compute, although memory may bound some of them. When a language model decodes, memory bounds the products: each
// step reads all weights and cached keys and values to compute one token of each request (docs/analyze.md).
func boundKinds(decode bool) []boundKind {
	products := boundKind{"compute", "compute: %s kernels take", nil}
	if decode {
		products = boundKind{"memory", "memory traffic, as decode reads the weights and the cached keys and values for one token of each request: %s kernels take", nil}
	}
	products.parts = []string{string(model.GEMM), string(model.Conv), string(model.TensorProduct), string(model.RNN), string(model.Attention),
		string(model.AttentionPrefill), string(model.MoEGEMM)}
	return []boundKind{
		products,
		{"memory", "memory traffic: %s kernels take", []string{string(model.Elementwise), string(model.Norm), string(model.Reduction), string(model.Scatter), string(model.Copy), string(model.Optimizer),
			string(model.AttentionDecode), string(model.KVCache), string(model.Rotary), string(model.Quantize), string(model.MoERouting), string(model.Sampling)}},
		{"communication", "communication: nothing else runs beside it in", []string{string(model.Communication), string(model.MoEAllToAll)}},
		{"host", "the host: the device waits for launches, or has none to come, in", []string{"starved", "outside"}},
		{"waits", "waits on the device: it has work launched, and does not run it in", []string{"queued"}},
		{unknownBound, "", []string{"unknown"}},
		{"other", "kernels whose kind their names do not tell: they take", []string{string(model.Other)}},
	}
}

// unknownBound stands for the resource that bounds the program if most time is idle time of unknown cause.
const unknownBound = "unknown"

type boundKind struct {
	by, text string
	parts    []string
}

// idleKnown reports whether the device records of every trace are good enough to measure idle time.
func idleKnown(indexes []*Index) bool {
	return !slices.ContainsFunc(indexes, func(x *Index) bool {
		return slices.ContainsFunc(x.Devices, func(d *DeviceTime) bool { return x.T.Gate.Faulty(d.Device) })
	})
}

// findBound sets a.Bound: the resource that bounds the program, and whether any finding saves enough time to be worth a
// change.
func (a *Analysis) findBound(indexes []*Index, found []Found) {
	b := &a.Bound
	b.Nothing = !slices.ContainsFunc(found, func(f Found) bool { return f.SavesTime() })
	whole := "the step"
	if a.Step.Count == 0 {
		whole = "the recording window"
	}
	notSteady := slices.IndexFunc(found, func(f Found) bool { return f.Rule == gpuprof.RuleNotSteady })
	switch {
	case !b.Nothing:
	case notSteady >= 0:
		b.Text = upperFirst(found[notSteady].Title) + "."
		return
	case len(a.Devices) == 0:
		b.Text = "No device operation was recorded, so nothing can be said of a GPU." + a.hostSentence(whole)
	default:
		b.Text = fmt.Sprintf("Nothing above %.1f %% of %s: no finding claims as much.", 100*LeastShare, whole)
	}
	if len(a.Devices) == 0 || a.Step.NS <= 0 || slices.ContainsFunc(indexes, (*Index).launchesFailed) {
		return
	}
	if !idleKnown(indexes) {
		b.Text = strings.TrimSpace(b.Text + " What bounds the program is unknown: too many records of a device are wrong.")
		return
	}
	// If the program is mostly one kernel, the bound is about the kernel, although the host may take more of the time.
	oneKernel := slices.ContainsFunc(found, func(f Found) bool { return f.Rule == gpuprof.RuleOneKernel && f.First })
	text := a.findLargestBound(func(k *boundKind) bool { return !oneKernel || k.by != "host" })
	if oneKernel && b.Share < leastOneKernel {
		text = a.findLargestBound(func(k *boundKind) bool { return k.by != "host" && k.by != "waits" && k.by != unknownBound })
		b.Text = strings.TrimSpace(fmt.Sprintf("The device's work is bound by %s %s of it, and the device is busy for %s of %s. ", text,
			shareText(b.NS, a.Step.BusyNS), shareText(a.Step.BusyNS, a.Step.NS), whole) + b.Text)
		return
	}
	if b.By == unknownBound {
		b.Text = strings.TrimSpace(fmt.Sprintf("The limit of the program is unknown: in %.0f %% of %s the device idles before work whose launch is not in the recording. ", 100*b.Share, whole) + b.Text)
		b.By, b.NS, b.Share = "", 0, 0
		return
	}
	if b.By != "" {
		b.Text = strings.TrimSpace(fmt.Sprintf("The program is bound by %s %.0f %% of %s. ", text, 100*b.Share, whole) + b.Text)
	}
}

// leastOneKernel is the least share of the step that the bounding resource of a one-kernel program must take. If the
// share is smaller, the text names the resource that bounds the busy time of the device instead.
const leastOneKernel = 0.3

// findLargestBound sets a.Bound to the resource with the most time among those that accepts allows, and returns a
// phrase that names the resource.
func (a *Analysis) findLargestBound(accepts func(*boundKind) bool) (text string) {
	b, partNS := &a.Bound, partsOf(a)
	b.By, b.NS, b.Share = "", 0, 0
	for _, k := range boundKinds(a.Recording != nil && a.Recording.Serving == "decode") {
		if !accepts(&k) {
			continue
		}
		parts := slices.DeleteFunc(k.parts, func(p string) bool { return partNS[p] == 0 })
		slices.SortStableFunc(parts, func(p, q string) int { return cmp.Compare(partNS[q], partNS[p]) })
		var ns int64
		for _, p := range parts {
			ns += partNS[p]
		}
		if ns <= b.NS {
			continue
		}
		b.By, b.NS, b.Share, text = k.by, ns, float64(ns)/float64(a.Step.NS), k.text
		if name := a.mainOther(); k.by == "other" && name == WholeGraph {
			text = "CUDA graphs, whose kernels were not recorded: they take"
		} else if k.by == "other" && name != "" {
			text = "the kernel " + name + ": such kernels take"
		}
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, gpuprof.WordList(parts[:min(len(parts), 3)], "and"))
		}
	}
	return text
}

// mainOther returns the name of the kernel that takes at least half of the time of class "other"; "" without one.
func (a *Analysis) mainOther() string {
	var most, all int64
	name := ""
	for i := range a.Kernels {
		k := &a.Kernels[i]
		if k.Class != model.Other {
			continue
		}
		if all += k.NS; k.NS > most {
			most, name = k.NS, ShortName(k.Name)
		}
	}
	if 2*most < all {
		return ""
	}
	return name
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// hostSentence states the largest part of the host thread's time.
func (a *Analysis) hostSentence(whole string) string {
	if a.Host == nil || len(a.Host.Parts) == 0 {
		return ""
	}
	p := a.Host.Parts[0]
	phrase := hostPhrases()[p.Name]
	if strings.HasPrefix(p.Name, "outside") && !a.isPlainPython() { // a program without torch has no operators
		phrase += " outside operators"
	}
	return fmt.Sprintf(" The host thread spends %.0f %% of %s %s.", 100*p.Share, whole, phrase)
}

// hostPhrases maps the parts of the host thread's time to words for a sentence about it.
func hostPhrases() map[string]string {
	return map[string]string{
		HostOperators: "in operators", HostLoader: "in the data loader", HostOptimizer: "in the optimizer",
		HostCommunication: "in communication", HostSync: "waiting for the device", HostOnCPU: "computing",
		HostDelay: "waiting for a CPU", HostBlocked: "blocked in waits, reads and sleeps",
		HostBlockedDelay: "blocked or waiting for a CPU", HostLock: "waiting for Python's global interpreter lock",
		HostOutside: "in the program's code",
	}
}
