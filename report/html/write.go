// Package html writes a page as one self-contained file, without network access, for screen and paper.
package html

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/page"
)

//go:embed *.tmpl *.css *.js
var files embed.FS

// templates are parsed for the first page, since most processes write none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"pieces": splitFlags}).ParseFS(files, "*.tmpl"))
})

// pageView is the data of page.tmpl.
type pageView struct {
	Title, Tab, Meta, Tool, Policy, Footer string
	Answer                                 answerView
	CSS                                    template.CSS
	JS, Data, Timeline                     template.JS
	DataNote, FileName, Beside             string
	Sections, Contents                     []sectionView
	pictures                               []string // scripts of pictures that can be zoomed
}

// leastContents is the least number of sections of a page with a table of contents.
const leastContents = 4

// Write writes the page.
func Write(w io.Writer, p *page.Page) error {
	title, meta := p.Head()
	v := &pageView{Title: title, Tab: title, Tool: p.Tool, Footer: p.Footer, Answer: answerOf(p.Opening())}
	if len(meta) > 0 {
		v.Tab += ", " + meta[0]
	}
	if p.Date != "" {
		meta = append(meta, p.Date)
	}
	v.Meta = strings.Join(meta, " · ")
	t := &tree{static: p.Static}
	for _, s := range p.Sections {
		v.Sections = append(v.Sections, t.buildSection(s, 2)...)
	}
	if t.err != nil {
		return t.err
	}
	for _, s := range v.Sections {
		if s.Heading != "" {
			v.Contents = append(v.Contents, s)
		}
	}
	if len(v.Contents) < leastContents {
		v.Contents = nil
	}
	v.Timeline, v.pictures = t.timeline, t.pictures
	if p.Static {
		v.DataNote, v.Beside = "The data of these pages:", p.Data.Name
	} else {
		v.embedData(p.Data)
	}
	if err := v.addStyle(p.Static); err != nil {
		return err
	}
	// Write into memory first, so that a failing template leaves no partial page.
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "page.tmpl", v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// addStyle adds the style, the scripts and the policy that permits them. A static page has no script.
func (v *pageView) addStyle(static bool) error {
	var css []byte
	for _, name := range []string{"style.css", "answer.css"} {
		more, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		css = append(css, more...)
	}
	css = append(css, figure.CSS()...)
	var scripts []string
	if !static {
		scripts = []string{"script.js", "tables.js"}
	}
	if len(v.pictures) > 0 {
		scripts = append(append(scripts, "canvas.js", "view.js", "pointer.js", "controls.js"), v.pictures...)
	}
	var js []byte
	for _, name := range scripts {
		more, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		js = append(append(js, more...), '\n')
	}
	v.CSS, v.JS, v.Policy = template.CSS(css), template.JS(js), contentPolicy(css, js)
	return nil
}

// contentPolicy returns a Content-Security-Policy that permits only this page's style and script, so that injected
// markup cannot run.
func contentPolicy(css, js []byte) string {
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(css) + "; script-src " + hash(js) + "; base-uri 'none'; form-action 'none'"
}

// maxDataBytes limits the size of the embedded document, bytes, after compression.
const maxDataBytes = 1_250_000

// HasData reports whether the page has a document to save.
func (v *pageView) HasData() bool { return v.Data != "" }

// embedData embeds the document. If that is impossible, a note has the reason.
func (v *pageView) embedData(d page.Data) {
	if d.Encode == nil {
		v.DataNote = "The data is not in this page."
		return
	}
	var b bytes.Buffer
	if err := d.Encode(&b); err != nil {
		v.DataNote = "The data is not in this page: it holds numbers that JSON cannot express."
		return
	}
	text, name, how := b.String(), d.Name, ""
	if d.Pack || len(text) > maxDataBytes/2 {
		text, name, how = packData(b.Bytes()), name+".gz", " (gzip in base64)"
	}
	if len(text) > maxDataBytes {
		v.DataNote = fmt.Sprintf("The data is not in this page: it would take %s. Keep %s beside it.", gpuprof.FormatBytes(float64(len(text))), d.Name)
		return
	}
	// encoding/json escapes <, > and &, so that no text can end the script element.
	v.Data, v.FileName = template.JS(text), name
	v.DataNote = strings.TrimSpace("The whole of " + d.Name + " is embedded in the page" + how + ". " + d.Note)
	if d.Note != "" {
		v.DataNote = "The data of this report is embedded in the page" + how + ". " + d.Note
	}
}

// packData compresses data with gzip and wraps it in a JSON object that names the encoding.
func packData(text []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	// Writes to memory cannot fail.
	_, _ = z.Write(text)
	_ = z.Close()
	out, _ := json.Marshal(map[string]string{"encoding": "gzip+base64", "data": base64.StdEncoding.EncodeToString(b.Bytes())})
	return string(out)
}
