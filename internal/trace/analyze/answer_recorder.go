package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// NsightReported begins the warnings with messages of Nsight Systems.
const NsightReported = "Nsight Systems reported"

// recorderText returns the recorder's own message about why it recorded no device, as a sentence; "" without one, or if
// a device was recorded.
func (a *Analysis) recorderText() string {
	if len(a.Devices) > 0 {
		return ""
	}
	if text := RecorderMessage(a.Warnings); text != "" {
		return gpuprof.AsSentence(text)
	}
	return ""
}

// RecorderMessage returns the recorder's message that best explains why no device was recorded; "" without one.
func RecorderMessage(warnings []gpuprof.Warning) string {
	best, text := 0, ""
	for _, w := range warnings {
		if rank := rankOfMessage(w); rank > best {
			best, text = rank, w.Text
		}
	}
	return text
}

// rankOfMessage ranks a recorder's message by how well it explains that no device was recorded: an unsupported driver
// or a refused permission is a cause, lost events are a symptom; 0 for other messages.
func rankOfMessage(w gpuprof.Warning) int {
	if w.Code != "nsys" && w.Code != "dropped-events" {
		return 0
	}
	text := strings.ToLower(w.Text)
	contains := func(words ...string) bool {
		return slices.ContainsFunc(words, func(s string) bool { return strings.Contains(text, s) })
	}
	switch {
	case !contains("cuda", "cupti", "driver", "gpu"):
		return 0
	case contains("not supported", "unsupported", "permission", "privilege", "incompatible", "not compatible", "failed", "unable", "cannot", "could not", "error"):
		return 3
	case contains("no cuda events", "not all cuda events"):
		return 1
	case contains("missing", "dropped", "lost"):
		return 2
	}
	return 0
}

// WholeGraphs is the code of the warning that CUDA graphs were recorded as one operation each.
const WholeGraphs = "graphs-as-a-whole"

// WholeGraph is the name of an operation that stands for a whole CUDA graph.
const WholeGraph = "CUDA graph"

// wholeGraphs returns the warning WholeGraphs if graphs recorded as one operation take half of the kernels' time or
// more, else nil.
func (a *Analysis) wholeGraphs() *gpuprof.Warning {
	i := slices.IndexFunc(a.Warnings, func(w gpuprof.Warning) bool { return w.Code == WholeGraphs })
	if i < 0 {
		return nil
	}
	var whole, all int64
	for _, k := range a.Kernels {
		if all += k.NS; k.Name == WholeGraph {
			whole += k.NS
		}
	}
	if 2*whole < all || whole == 0 {
		return nil
	}
	return &a.Warnings[i]
}
