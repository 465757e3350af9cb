// Package plot draws runs, comparisons, tuning results and trace analyses
// with gonum/plot, as PNG or SVG. It is a pure function of the document;
// colours are the Okabe-Ito palette, which readers with any kind of colour
// vision can tell apart.
package plot

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Kinds lists every picture, those of a run first; which of them a document
// has depends on what it is.
func Kinds() []string {
	return []string{"stages", "timeline", "distribution", "roofline", "telemetry", "scaling", "waterfall", "effects"}
}

// kind is one picture of a document D.
type kind[D any] struct {
	name string
	draw func(D) (*Figure, error)
}

// owners says which document has a picture, and how to come by one.
func owners(name string) string {
	switch name {
	case "waterfall":
		return "it shows a comparison; write one with gpuprof compare OLD NEW -o " + name + ".png"
	case "effects":
		return "it shows a tuning result or a comparison; write one with gpuprof tune WORKLOAD -o " + name + ".png"
	}
	return "it shows a run; write one with gpuprof run WORKLOAD -o run.json"
}

// pick draws the asked picture of a document that is called what ("a run");
// "" is the first that has something to show, else the first. What the
// document does not have is ErrUsage naming what it does.
func pick[D any](what string, kinds []kind[D], doc D, want string) (*Figure, error) {
	if want == "" {
		return first(kinds, doc)
	}
	for _, k := range kinds {
		if k.name != want {
			continue
		}
		f, err := k.draw(doc)
		if err == nil && f.lacks != "" {
			err = gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: %s; %s", want, f.lacks, instead(kinds, doc, what))
		}
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	for _, name := range Kinds() {
		if name == want {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: %s has none, %s; %s", want, what, owners(want), instead(kinds, doc, what))
		}
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: there is no such picture; use --plot %s%s", view.Cut(want, 40), strings.Join(Kinds(), ", "), gpuprof.DidYouMean(want, Kinds()))
}

// first is the first picture with something in it; a document that has
// nothing to draw gets a picture that says so.
func first[D any](kinds []kind[D], doc D) (*Figure, error) {
	var said *Figure
	for _, k := range kinds {
		f, err := k.draw(doc)
		switch {
		case errors.Is(err, gpuprof.ErrUsage):
			continue
		case err != nil:
			return nil, err
		case f.lacks == "":
			return f, nil
		case said == nil:
			said = f
		}
	}
	if said == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "drawing a picture: the file holds nothing to draw; write it again")
	}
	return said, nil
}

// instead says which pictures of a document have something in them.
func instead[D any](kinds []kind[D], doc D, what string) string {
	var names []string
	for _, k := range kinds {
		if f, err := k.draw(doc); err == nil && f.lacks == "" {
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return "leave --plot out: there is nothing in it to draw"
	}
	return what + " like this one has --plot " + strings.Join(names, ", ")
}

func runKinds() []kind[[]*gpuprof.Run] {
	return []kind[[]*gpuprof.Run]{
		{"stages", stages}, {"timeline", timeline}, {"distribution", distribution}, {"roofline", roofline}, {"telemetry", telemetry}, {"scaling", scaling},
	}
}

// Draw makes the picture of a kind of runs; "" is the stages, or scaling for
// several runs. An unknown kind, or one that the runs cannot give, is ErrUsage
// naming the others.
func Draw(runs []*gpuprof.Run, kind string) (*Figure, error) {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return nil, view.ErrNoRun("a picture")
	}
	if kind == "" && len(view.Vary(runs)) > 0 {
		kind = "scaling"
	}
	if kind == "" { // what a run is comes first, even when it has no times
		return stages(runs)
	}
	return pick("a run", runKinds(), runs, kind)
}

// WritePNG draws a kind of picture of runs, width x height pixels (0: the
// default), as a PNG that says which program wrote it.
func WritePNG(w io.Writer, runs []*gpuprof.Run, kind string, width, height int) error {
	f, err := Draw(runs, kind)
	if err != nil {
		return err
	}
	return f.PNG(w, width, height)
}

// WriteSVG is WritePNG for SVG. Fonts are named, not embedded: a viewer
// without the Liberation fonts takes its own sans-serif.
func WriteSVG(w io.Writer, runs []*gpuprof.Run, kind string, width, height int) error {
	f, err := Draw(runs, kind)
	if err != nil {
		return err
	}
	return f.SVG(w, width, height)
}

// newFigure has the run's title; several runs show the first and say so.
func newFigure(what string, runs []*gpuprof.Run) *Figure {
	r := runs[0]
	f := &Figure{title: view.Subject(r) + ": " + what, tool: r.Tool.Version}
	parts := []string{view.DeviceName(r)}
	if how := view.HowMeasured(r); how != "" {
		parts = append(parts, how)
	}
	if !r.Started.IsZero() {
		parts = append(parts, date(r.Started))
	}
	if r.Status != gpuprof.Complete {
		parts = append(parts, strings.ToUpper(view.Status(r)))
	}
	f.subtitle = strings.Join(parts, " · ")
	if len(runs) > 1 {
		f.note = fmt.Sprintf("run 1 of %d", len(runs))
		if vary := view.Vary(runs); len(vary) > 0 {
			f.note += ": " + view.SettingText(r, vary)
		}
	}
	return f
}
