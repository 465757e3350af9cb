package report_test

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/benchfmt"
	htmlreport "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/table"
)

func rendered(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// galleryRuns are the recorded runs of the gallery, by name.
func galleryRuns(t *testing.T) map[string]*gpuprof.Run {
	t.Helper()
	out := map[string]*gpuprof.Run{}
	for _, name := range []string{"e3nn-csr", "e3nn-unfused", "serving"} {
		runs, err := runfile.Read(t.Context(), filepath.Join("..", "testdata", "gallery", name+".json.gz"))
		if err != nil || len(runs) != 1 {
			t.Fatalf("%s: %d runs, %v", name, len(runs), err)
		}
		out[name] = runs[0]
	}
	return out
}

// The same quantity of a run reads the same in every format.
func TestRunsReadTheSameEverywhere(t *testing.T) {
	runs := fixture.Every()
	maps.Copy(runs, galleryRuns(t))
	for name, r := range runs {
		page := pageOf([]*gpuprof.Run{r})
		formats := map[string]figures{
			"table":    ofTable(rendered(t, func(w io.Writer) error { return table.Write(w, page, table.Options{Width: 200}) })),
			"narrow":   ofTable(rendered(t, func(w io.Writer) error { return table.Write(w, page, table.Options{Width: 80}) })),
			"markdown": ofMarkdown(rendered(t, func(w io.Writer) error { return markdown.Write(w, page, 0) })),
			"html":     ofHTML(rendered(t, func(w io.Writer) error { return htmlreport.Write(w, page) })),
		}
		maps.Copy(formats, figuresOfRun(r))
		shared := agree(t, name, formats)
		if measured := r.Step.N() > 0 && r.Status == gpuprof.Complete && name != "nan"; measured && shared < 5*len(r.Stages)/2 {
			t.Errorf("%s: only %d figures of %d stages are in two formats", name, shared, len(r.Stages))
		}
		if r.Step.N() > 0 {
			benchFile(t, name, r, formats["table"])
		}
	}
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+) \d+ (.*)$`)

// benchFile checks that benchstat's file holds the printed times: a figure is within the range of its processes.
func benchFile(t *testing.T, name string, r *gpuprof.Run, printed figures) {
	t.Helper()
	times := map[[2]string][]float64{}
	for _, m := range benchLine.FindAllStringSubmatch(rendered(t, func(w io.Writer) error { return benchfmt.Write(w, []*gpuprof.Run{r}) }), -1) {
		row := "step"
		if _, stage, ok := strings.Cut(m[1], "/stage="); ok {
			row, _, _ = strings.Cut(stage, "/")
		}
		words := strings.Fields(m[2])
		for i := 0; i+1 < len(words); i += 2 {
			column, ok := map[string]string{"sec/op": "value", "device-sec/op": "device", "host-sec/op": "host", "exposed-sec/op": "exposed"}[words[i+1]]
			if v, err := strconv.ParseFloat(words[i], 64); ok && err == nil {
				times[[2]string{row, column}] = append(times[[2]string{row, column}], v)
			}
		}
	}
	compared := 0
	for k, v := range times {
		if q, ok := quantity(printed[k]); ok {
			compared++
			if q < 0.994*slices.Min(v) || q > 1.006*slices.Max(v) {
				t.Errorf("%s: %s of %s is %s in the table and %v s in benchstat's file", name, k[1], k[0], printed[k], v)
			}
		}
	}
	if compared < len(r.Stages)/3 {
		t.Errorf("%s: only %d times are in benchstat's file and in the table", name, compared)
	}
}

// A number changed by hand in one format is found, and so is one that only looks alike.
func TestAFormatThatDisagreesIsFound(t *testing.T) {
	r := fixture.One()
	text := rendered(t, func(w io.Writer) error { return markdown.Write(w, pageOf([]*gpuprof.Run{r}), 0) })
	own := ofMarkdown(text)
	for _, k := range [][2]string{{"radial", "exposed"}, {"radial", "95 % interval"}, {"step", "value"}, {"throughput", "remark"}, {"h2d", "share"}} {
		other := maps.Clone(own)
		if own[k] == "" {
			t.Fatalf("no %s of %s in %s", k[1], k[0], text)
		}
		other[k] = strings.NewReplacer("1", "2", "2", "3", "3", "4", "4", "5", "5", "6", "6", "7").Replace(own[k])
		if found := disagreements(map[string]figures{"a": own, "b": other}); len(found) != 1 {
			t.Errorf("%s of %s as %s and %s: %v", k[1], k[0], own[k], other[k], found)
		}
	}
}
