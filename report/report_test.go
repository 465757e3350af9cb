package report_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	"github.com/gpuprof/gpuprof/report/csv"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/metrics"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/perfetto"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/table"
)

// runWriter writes runs in one format.
type runWriter func(w io.Writer, runs []*gpuprof.Run) error

// writers is a renderer for every format, as a command would wire them.
func writers() map[string]runWriter {
	json := func(w io.Writer, runs []*gpuprof.Run) error {
		return document.EncodeRuns(w, runs...)
	}
	return map[string]runWriter{
		"json":  json,
		"html":  func(w io.Writer, runs []*gpuprof.Run) error { return html.Write(w, pageOf(runs)) },
		"png":   picture("png", 300, 200),
		"svg":   picture("svg", 0, 0),
		"pprof": pprof.Write,
		"markdown": func(w io.Writer, runs []*gpuprof.Run) error {
			return markdown.Write(w, pageOf(runs), 0)
		},
		"perfetto": perfetto.Write,
		"table": func(w io.Writer, runs []*gpuprof.Run) error {
			return table.Write(w, pageOf(runs), table.Options{})
		},
		"bench": benchfmt.Write,
		"csv":   csv.Write,
		"bmf":   metrics.WriteBMF, "openmetrics": metrics.WriteOpenMetrics,
	}
}

// pageOf is the page of runs; there is one at least.
func pageOf(runs []*gpuprof.Run) *page.Page {
	p, err := page.Runs(runs)
	if err != nil {
		panic(err)
	}
	return p
}

func picture(format string, width, height int) runWriter {
	return func(w io.Writer, runs []*gpuprof.Run) error {
		f, err := figure.OfRuns(runs, "")
		if err != nil {
			return err
		}
		return f.Write(w, format, width, height)
	}
}

// TestEveryFormatKnowsItsOwnFiles writes each format twice: the second time
// it meets its own file and must replace it; a file of someone else's under
// the same name it must not.
func TestEveryFormatKnowsItsOwnFiles(t *testing.T) {
	runs := fixture.Sweep()
	for _, f := range runfile.Formats() {
		if f.Name == "junit" || f.Name == "prometheus" || f.Name == "recording" || f.Name == "speedscope" || f.Name == "folded" {
			continue // of a verdict, of the health of GPUs, of a part of a recording, of sampled stacks; their own tests write them twice
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "out"+f.Ext)
		encode := func(w io.Writer) error { return writers()[f.Name](w, runs) }
		for round := range 2 {
			if err := runfile.Check(path, false); err != nil {
				t.Fatalf("%s, round %d: %v", f.Ext, round, err)
			}
			if err := runfile.Write(path, false, encode); err != nil {
				t.Fatalf("%s, round %d: %v", f.Ext, round, err)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s left %v, %v", f.Ext, entries, err)
		}
		if err := os.WriteFile(path, []byte("made with gpuprof, edited by me"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := runfile.Check(path, false); err == nil {
			t.Errorf("%s would replace a file of someone else's", f.Ext)
		}
	}
}

// TestPureAndRepeatable: rendering changes no run and gives the same bytes.
func TestPureAndRepeatable(t *testing.T) {
	for name, w := range writers() {
		r := fixture.Three()
		var before, after bytes.Buffer
		if err := document.EncodeRuns(&before, r); err != nil {
			t.Fatal(err)
		}
		var a, b bytes.Buffer
		for _, out := range []*bytes.Buffer{&a, &b} {
			if err := w(out, []*gpuprof.Run{r}); err != nil {
				t.Fatal(name, err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s is not the same twice", name)
		}
		if err := document.EncodeRuns(&after, r); err != nil || !bytes.Equal(before.Bytes(), after.Bytes()) {
			t.Errorf("%s changed the run", name)
		}
	}
}
