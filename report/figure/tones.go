package figure

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Tone is a colour by its meaning, with one value for a light and one for a dark background.
type Tone string

// Tones. The first six numbered ones are the palette of Okabe and Ito, which readers with any colour vision can
// distinguish; yellow is late because it is faint on white.
const (
	Rest    Tone = "rest" // stages or classes without a colour of their own
	Ink     Tone = "fg"
	Soft    Tone = "soft"
	Faint   Tone = "line"
	Ground  Tone = "bg"
	Starved Tone = "bad"
	Queued  Tone = "warn"
	Faster  Tone = "t2"
	Slower  Tone = "t3"
)

// toneOf returns the tone of the i-th largest part.
func toneOf(i int) Tone {
	if i < 0 || i >= view.MaxTones {
		return Rest
	}
	return Tone(fmt.Sprintf("t%d", i))
}

// hostTones are the tones of the parts of a host thread's time, and of the phases of a recording.
func hostTones() map[string]Tone {
	return map[string]Tone{
		analyze.HostOperators: toneOf(0), analyze.HostLoader: Starved, analyze.HostSync: toneOf(6), analyze.HostOnCPU: toneOf(5),
		analyze.HostBlocked: Queued, analyze.HostBlockedDelay: Queued, analyze.HostLock: toneOf(8), analyze.HostOutside: toneOf(7),
		analyze.PhaseStartUp: toneOf(1), analyze.PhaseCompile: toneOf(4), analyze.PhaseCapture: toneOf(9),
	}
}

// partTone returns the tone of a named part of GPU time, host time or memory, for answers and charts alike. A stage's
// tone depends on its position in the step instead (view.Tones).
func partTone(name string) Tone {
	for _, full := range []string{name, "outside, " + name} { // a program without operators has the short name
		if tone, ok := hostTones()[full]; ok {
			return tone
		}
	}
	name = partKey(strings.TrimPrefix(name, "outside, "))
	switch {
	case name == "starved", name == "does_nothing", name == "waits_for_launches":
		return Starved
	case name == "queued":
		return Queued
	case name == "unknown":
		return Soft
	case name == "outside":
		return Faint
	case name == "busy", name == "works":
		return toneOf(0)
	case strings.HasPrefix(name, "wait"): // waits for other ranks
		return "wait"
	}
	if t, ok := view.ClassTones()[model.Class(name)]; ok {
		return toneOf(t)
	}
	return toneOf(slices.IndexFunc(memsnap.Categories(), func(c memsnap.Category) bool { return partKey(c.String()) == name }))
}

// partKey normalizes a part's name for the tables of tones.
func partKey(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "idle, "), " ", "_")
}

// processTone returns the tone of the i-th process.
func processTone(i int) Tone { return Tone(fmt.Sprintf("p%d", i%3)) }

// paint is a colour on a light and on a dark background.
type paint struct {
	name        string
	light, dark uint32
}

// paintTable has the colours of figures, also of those that scripts draw; o0 is for text on t0.
func paintTable() []paint {
	return []paint{
		{"bg", 0xffffff, 0x14171b}, {"fg", 0x1f2328, 0xe3e6ea}, {"soft", 0x59616b, 0xa0a8b2}, {"line", 0xdfe3e8, 0x30363d},
		{"t0", 0x0072b2, 0x4a9fd8}, {"t1", 0xe69f00, 0xe0a63a}, {"t2", 0x009e73, 0x2bb58c}, {"t3", 0xd55e00, 0xe27a3f},
		{"t4", 0xcc79a7, 0xd394b8}, {"t5", 0x56b4e9, 0x8cc8ee},
		{"t6", 0x332288, 0x8f83e0}, {"t7", 0x999933, 0xbdbd5c}, {"t8", 0x882255, 0xcf6f9d}, {"t9", 0x44aa99, 0x66c4b5},
		{"t10", 0x661100, 0xb5654f}, {"t11", 0xddcc77, 0xd9cd86}, {"host", 0x9fb3cc, 0x5f7694}, {"wait", 0x8e5a9f, 0xc39bd3}, {"rest", 0x9aa1ab, 0x6e7782},
		{"o0", 0xffffff, 0x0d1117}, {"o1", 0x1f2328, 0x0d1117}, {"o2", 0x10231c, 0x0d1117}, {"o3", 0xffffff, 0x0d1117},
		{"o4", 0x1f2328, 0x0d1117}, {"o5", 0x1f2328, 0x0d1117},
		{"o6", 0xffffff, 0x0d1117}, {"o7", 0x1f2328, 0x0d1117}, {"o8", 0xffffff, 0x0d1117}, {"o9", 0x0d1117, 0x0d1117},
		{"o10", 0xffffff, 0x0d1117}, {"o11", 0x1f2328, 0x0d1117}, {"orest", 0x1f2328, 0x0d1117},
		{"p0", 0x0072b2, 0x6bb4e6}, {"p1", 0xb86f00, 0xe0a63a}, {"p2", 0x00805c, 0x45c79d},
		{"bad", 0xa01622, 0xff9a9a}, {"warn", 0x7a4b00, 0xf0c674},
	}
}

// contrastTone returns the tone of text inside a bar of tone t.
func (t Tone) contrastTone() Tone {
	if t == Rest || len(t) >= 2 && t[0] == 't' && t[1] >= '0' && t[1] <= '9' {
		return "o" + Tone(strings.TrimPrefix(string(t), "t"))
	}
	return Ground
}

// lightColor returns a tone's colour on white.
func (t Tone) lightColor() color.NRGBA {
	for _, p := range paintTable() {
		if p.name == string(t) {
			return color.NRGBA{uint8(p.light >> 16), uint8(p.light >> 8), uint8(p.light), 0xff}
		}
	}
	return color.NRGBA{A: 0xff}
}

// Form is the style of a shape: fill, line, opacity.
type Form string

// Forms. The zero value is filled.
const (
	Pale    Form = "pale"    // faintly filled: a neighbouring step
	Behind  Form = "band"    // filled, behind everything else
	Filled  Form = "area"    // a filled path
	Stroke  Form = "stroke"  // a curve
	Outline Form = "outline" // a thinner curve
	Whisker Form = "whisker"
	Hair    Form = "hair" // axes and rules
	Dashed  Form = "dash"
	Points  Form = "sample"
	Dots    Form = "dot" // larger points, for few of them
)

// formStyle has the drawing parameters of a form.
type formStyle struct {
	form          Form
	stroke        float64 // line width; 0 means filled
	dash          float64
	opacity       float64
	roundedDotted bool
}

func mannerTable() []formStyle {
	return []formStyle{
		{"", 0, 0, 1, false}, {Pale, 0, 0, 0.3, false}, {Behind, 0, 0, 0.26, false}, {Filled, 0, 0, 0.35, false},
		{Stroke, 2, 0, 1, false}, {Outline, 1.4, 0, 1, false}, {Whisker, 1.5, 0, 1, false}, {Hair, 1, 0, 1, false},
		{Dashed, 1, 4, 1, false}, {Points, 2.6, 0, 0.65, true}, {Dots, 6, 0, 0.65, true},
	}
}

func (f Form) findManner() formStyle {
	all := mannerTable()
	for _, m := range all {
		if m.form == f {
			return m
		}
	}
	return all[0]
}

// CSS returns the style sheet of figures in a page, with colours as variables for a light and a dark background.
func CSS() string {
	var light, dark, tones, forms strings.Builder
	for _, p := range paintTable() {
		fmt.Fprintf(&light, " --%s: #%06x;", p.name, p.light)
		fmt.Fprintf(&dark, " --%s: #%06x;", p.name, p.dark)
		fmt.Fprintf(&tones, ".figure .%s { --c: var(--%s); }\n", p.name, p.name)
	}
	for _, m := range mannerTable() {
		at := ".figure ." + string(m.form)
		switch {
		case m.form == "":
			continue
		case m.stroke == 0:
			fmt.Fprintf(&forms, "%s { fill-opacity: %g; }\n", at, m.opacity)
			continue
		}
		fmt.Fprintf(&forms, "%s { fill: none; stroke: var(--c); stroke-width: %g;", at, m.stroke)
		if m.dash > 0 {
			fmt.Fprintf(&forms, " stroke-dasharray: %g %g;", m.dash, m.dash)
		}
		if m.roundedDotted {
			fmt.Fprintf(&forms, " stroke-linecap: round; stroke-opacity: %g;", m.opacity)
		}
		forms.WriteString(" }\n")
	}
	return ":root {" + light.String() + " }\n@media screen and (prefers-color-scheme: dark) { :root {" + dark.String() + " } }\n" +
		".figure { display: block; width: 100%; min-width: 720px; height: auto; font: 12px 'Liberation Sans', Arial, Helvetica, sans-serif; }\n" +
		".figure.slim { min-width: 0; }\n.narrow { display: none; }\n@media screen and (max-width: 640px) { .narrow { display: block; } .narrow + .broad { display: none; } }\n" +
		".figure rect, .figure circle, .figure path { fill: var(--c); }\n.figure text { fill: var(--c, var(--fg)); }\n" + tones.String() + forms.String() +
		".figure .ring { fill: var(--bg); stroke: var(--c); stroke-width: 2; }\n" +
		"@media print { .figure { min-width: 0; break-inside: avoid; } }\n"
}
