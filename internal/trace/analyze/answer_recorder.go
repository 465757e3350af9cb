package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// recorderText returns the recorder's own message about what keeps it from recording a device, where no device was
// recorded; "" without one.
func (a *Analysis) recorderText() string {
	if len(a.Devices) > 0 {
		return ""
	}
	best, text := 0, ""
	for _, w := range a.Warnings {
		if rank := rankOfMessage(w); rank > best {
			best, text = rank, w.Text
		}
	}
	if text == "" {
		return ""
	}
	return upperFirst(strings.TrimSuffix(text, ".")) + "."
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
