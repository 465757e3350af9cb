// Package html writes runs, comparisons, tuning results and analyses of traces
// as one self-contained page each: no network, no scripts from elsewhere,
// readable from a file, on paper, in light and dark. Every page is a pure
// function of what it shows.
package html

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

//go:embed *.tmpl style.css script.js timeline.js
var files embed.FS

var page = template.Must(template.New("").Funcs(template.FuncMap{"n": number, "head": newHead}).ParseFS(files, "*.tmpl"))

// number prints a coordinate: a tenth of a pixel is enough.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

type head struct {
	Sub      bool
	ID, Text string
}

// newHead is a section's heading, one level down inside a sweep.
func newHead(r *runView, id, text string) head { return head{r.Sub, r.ID + id, text} }

// pageView is what page.tmpl shows.
type pageView struct {
	Title, Tool, Policy string
	CSS                 template.CSS
	JS                  template.JS
	Data                template.JS
	DataNote, FileName  string
	Compressed          bool
	Single              *runView
	Runs                []*runView // of a sweep
	Sweep               *sweepView
}

// Write writes the page for one run or a sweep.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("a report")
	}
	css, err := files.ReadFile("style.css")
	if err != nil {
		return err
	}
	js, err := files.ReadFile("script.js")
	if err != nil {
		return err
	}
	p := &pageView{Title: view.Subject(runs[0]) + " on " + view.DeviceName(runs[0]), Tool: view.Tool(runs[0]),
		CSS: template.CSS(css), JS: template.JS(js), Policy: policy(css, js)}
	p.embed(runs)
	limit := pointLimit(runs)
	if len(runs) == 1 {
		p.Single = newRunView(runs[0], "", limit)
	} else {
		p.Title = view.SweepTitle(runs)
		p.Sweep = newSweepView(runs)
		for i, r := range runs {
			v := newRunView(r, "r"+strconv.Itoa(i+1)+"-", limit)
			v.Sub, v.Heading = true, view.SettingText(r, view.Vary(runs))
			if v.Heading == "" {
				v.Heading = "run " + strconv.Itoa(i+1)
			}
			p.Runs = append(p.Runs, v)
		}
	}
	// Into memory first: a template that fails must not leave half a page.
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, "page.tmpl", p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// policy allows this page's own style and script and nothing else, so that a
// hostile name that found a way into the page could still do nothing.
func policy(css, js []byte) string {
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(css) + "; script-src " + hash(js) + "; base-uri 'none'; form-action 'none'"
}

// pointLimit is how many samples of one series are drawn, so that all charts
// of the page together stay within a few hundred kilobytes.
func pointLimit(runs []*gpuprof.Run) int {
	series := 0
	for _, r := range runs {
		series += 1 + len(view.Stages(r))
	}
	return min(max(24000/max(series, 1), 50), maxPoints)
}

const maxPoints = 2000
