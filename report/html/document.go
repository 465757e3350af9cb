package html

import (
	"bytes"
	"encoding/json"
	"html/template"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// document is what document.tmpl shows: the page of anything but runs.
type document struct {
	Title, Meta, Tool, Policy string
	Footer                    string
	Badge                     *badge
	CSS                       template.CSS
	JS, Data, Timeline        template.JS
	DataNote, FileName        string

	// One of these is the content.
	Analysis   *analysisView
	Comparison *comparisonView
	Verdict    *verdictView
	Tune       *tuneView
}

type badge struct{ Class, Value string }

// gridView is a table as it is shown.
type gridView struct {
	ID, Heading, Caption string
	Titles               []string
	Rows                 [][]string
	Classes              []string // of the rows; may be shorter
	Words                bool     // cells are words, not figures
	LastIsRemark         bool
}

// Class is the class of row n.
func (g gridView) Class(n int) string {
	if n < len(g.Classes) {
		return g.Classes[n]
	}
	return ""
}

// Remark reports whether column i, the last, holds a remark that may be long.
func (g gridView) Remark(i int) bool { return g.LastIsRemark && i == len(g.Titles)-1 }

// HasData reports whether there is something to save.
func (p *document) HasData() bool { return p.Data != "" }

// write fills in style, scripts and data, which the page offers as a file of
// the given name, and writes the page.
func (p *document) write(w io.Writer, tool gpuprof.Tool, name string, data any) error {
	css, err := files.ReadFile("style.css")
	if err != nil {
		return err
	}
	css = append(css, figure.CSS()...)
	js, err := files.ReadFile("script.js")
	if err != nil {
		return err
	}
	if p.Timeline != "" {
		more, err := files.ReadFile("timeline.js")
		if err != nil {
			return err
		}
		js = append(append(js, '\n'), more...)
	}
	p.Tool = strings.TrimSpace("gpuprof " + view.Cut(tool.Version, 40))
	p.CSS, p.JS, p.Policy = template.CSS(css), template.JS(js), policy(css, js)
	p.attach(name, data)
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "document.tmpl", p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// attach embeds the data, or says why the page does not hold it.
func (p *document) attach(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		p.DataNote = "The data is not in this page: it holds numbers that JSON cannot express."
		return
	}
	p.FileName, p.DataNote = name, "The whole of "+name+" is embedded in the page."
	packed := string(text)
	if len(packed) > maxDataBytes/2 {
		packed, p.FileName = pack(text), name+".gz"
	}
	if len(packed) <= maxDataBytes {
		// encoding/json escapes <, > and &, so no text can end the element.
		p.Data = template.JS(packed)
		return
	}
	p.FileName, p.DataNote = "", "The data is not in this page because it would make it too large; keep "+name+" beside it."
}
