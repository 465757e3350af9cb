package page

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Kinds of boxes that are no device operations; the kinds of operations follow from firstClass.
const (
	kindStarved = iota
	kindQueued
	kindUnknown
	kindStep
	kindHost
	kindWait
	kindClaim
	firstClass
)

// boxKind has the background and text colours (CSS variables) and the label of boxes.
type boxKind struct {
	tone, ink, label string
	kernel           bool
}

// boxKinds lists all kinds: the states, then each class twice, for copies and fills and for kernels.
func boxKinds() []boxKind {
	out := []boxKind{{"bad", "bg", "starved", false}, {"warn", "bg", "queued", false}, {"soft", "bg", "launch unknown", false},
		{"line", "fg", "step", false}, {"host", "fg", "host", false}, {"wait", "bg", "host waits", false}, {"bad", "bg", "claimed", false}}
	tones := view.ClassTones()
	for _, c := range model.Classes() {
		k := boxKind{tone: "rest", ink: "orest", label: string(c)}
		if tone := tones[c]; tone < view.MaxTones {
			k.tone, k.ink = fmt.Sprintf("t%d", tone), fmt.Sprintf("o%d", tone)
		}
		out = append(out, k)
		k.kernel = true
		out = append(out, k)
	}
	return out
}

// kindsOfClasses returns for each class the kind of its copies and fills; the kind of its kernels is the next number.
func kindsOfClasses() map[model.Class]int {
	out := map[model.Class]int{}
	for i, c := range model.Classes() {
		out[c] = firstClass + 2*i
	}
	return out
}
