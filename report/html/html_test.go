package html_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/page"
)

func render(t *testing.T, runs ...*gpuprof.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeRuns(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func writeRuns(w io.Writer, runs []*gpuprof.Run) error {
	p, err := page.Runs(runs)
	if err != nil {
		return err
	}
	return html.Write(w, p)
}

// everyPage renders each kind of page once for all tests.
var everyPage = sync.OnceValues(func() (map[string]string, error) {
	sets := map[string][]*gpuprof.Run{"sweep": append(fixture.Sweep(), fixture.Invalid()), "watched": {watched()}, "hostile-endless": {endless()}}
	for name, r := range fixture.Every() {
		sets[name], sets[name+" in a sweep"] = []*gpuprof.Run{r}, []*gpuprof.Run{r, fixture.One(), nil}
	}
	out := map[string]string{}
	for name, runs := range sets {
		var b bytes.Buffer
		if err := writeRuns(&b, runs); err != nil {
			return nil, err
		}
		out["run-"+name] = b.String()
	}
	return out, nil
})

// pages are every kind of page the tests hold to the same rules.
func pages(t *testing.T) map[string]string {
	t.Helper()
	runs, err := everyPage()
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(runs)
	for name, write := range documents(t) {
		out[name] = written(t, write)
	}
	return out
}

var scripts = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`)

// quoted are names in full, which hold no quotation mark unescaped.
var quoted = regexp.MustCompile(` title="[^"]*"`)

// TestHostileTextStaysText: markup in names reaches the page as text only.
func TestHostileTextStaysText(t *testing.T) {
	for name, page := range pages(t) {
		if n := strings.Count(page, "<script"); n != strings.Count(page, "</script>") || (n < 1 && !strings.HasPrefix(name, "site-")) || n > 5 {
			t.Errorf("%s: %d scripts", name, n)
		}
		for _, bad := range []string{"<script>alert", "<img", "\x00", "\x1b"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}

var contentPolicy = regexp.MustCompile(`style-src &#39;sha256-([^&]+)&#39;; script-src &#39;sha256-([^&]+)&#39;`)

// TestPolicyMatches: a browser refuses style and script whose hash differs.
func TestPolicyMatches(t *testing.T) {
	page := render(t, fixture.One())
	m := contentPolicy.FindStringSubmatch(strings.ReplaceAll(page, "&#43;", "+"))
	if m == nil {
		t.Fatal("the page has no policy")
	}
	for i, tag := range []string{"style", "script"} {
		_, rest, _ := strings.Cut(page, "<"+tag+">")
		body, _, _ := strings.Cut(rest, "</"+tag+">")
		sum := sha256.Sum256([]byte(body))
		if got := base64.StdEncoding.EncodeToString(sum[:]); got != m[i+1] {
			t.Errorf("%s: hash %s, policy %s", tag, got, m[i+1])
		}
	}
}

// TestStructure: tags balance, ids are unique, labels point somewhere,
// headings do not skip a level, tables have captions and scopes.
func TestStructure(t *testing.T) {
	for name, page := range pages(t) {
		page = scripts.ReplaceAllString(page, "")
		page = strings.TrimPrefix(page, "<!DOCTYPE html>\n")
		dec := xml.NewDecoder(strings.NewReader(page))
		dec.Strict, dec.AutoClose, dec.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
		ids, refs, level, open := map[string]bool{}, []string{}, 0, []string{}
		for {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch el := tok.(type) {
			case xml.StartElement:
				open = append(open, el.Name.Local)
				for _, a := range el.Attr {
					switch a.Name.Local {
					case "id":
						if ids[a.Value] {
							t.Errorf("%s: id %s twice", name, a.Value)
						}
						ids[a.Value] = true
					case "aria-labelledby":
						refs = append(refs, strings.Fields(a.Value)...)
					}
				}
				if h := el.Name.Local; len(h) == 2 && h[0] == 'h' && h[1] >= '1' && h[1] <= '6' {
					if n := int(h[1] - '0'); n > level+1 {
						t.Errorf("%s: h%d after h%d", name, n, level)
					} else {
						level = n
					}
				}
			case xml.EndElement:
				if n := len(open); n == 0 || open[n-1] != el.Name.Local {
					t.Fatalf("%s: </%s> closes %v", name, el.Name.Local, open)
				}
				open = open[:len(open)-1]
			}
		}
		for _, r := range refs {
			if !ids[r] {
				t.Errorf("%s: nothing has the id %s", name, r)
			}
		}
		if n := strings.Count(page, "<table"); n == 0 && !strings.HasSuffix(name, "-empty") || n != strings.Count(page, "<caption") {
			t.Errorf("%s: %d tables, %d captions", name, n, strings.Count(page, "<caption"))
		}
		if strings.Contains(page, "<th>") {
			t.Errorf("%s: a table head without scope", name)
		}
		if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s: a coordinate is not a number", name)
		}
	}
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="run-data">(.*?)</script>`)

// data reads the embedded runs as the page's own script does.
func data(t *testing.T, page string) []*gpuprof.Run {
	t.Helper()
	m := dataElement.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page holds no data")
	}
	text := m[1]
	var packed struct{ Encoding, Data string }
	if err := json.Unmarshal([]byte(text), &packed); err == nil && packed.Encoding == "gzip+base64" {
		raw, err := base64.StdEncoding.DecodeString(packed.Data)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	runs, err := document.Runs([]byte(text), "the page")
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestDataRoundTrip(t *testing.T) {
	small, big := fixture.One(), fixture.Complete(fixture.Options{Seed: 5, Processes: 3, Samples: 500})
	for name, r := range map[string]*gpuprof.Run{"plain": small, "packed": big} {
		page := render(t, r)
		got := data(t, page)
		if len(got) != 1 || got[0].Step.N() != r.Step.N() || got[0].Step.Runs[0][7] != r.Step.Runs[0][7] {
			t.Errorf("%s: the data changed", name)
		}
		if packed := strings.Contains(page, "gzip+base64"); packed != (name == "packed") {
			t.Errorf("%s: packed is %v", name, packed)
		}
	}
	if got := data(t, render(t, fixture.Sweep()...)); len(got) != 4 {
		t.Errorf("%d runs of a sweep", len(got))
	}
}

// large is a run of 100,000 samples in three processes.
func large() *gpuprof.Run {
	r := fixture.Three()
	many := func(s *gpuprof.Series) {
		for p, run := range s.Runs {
			long := make([]float64, 0, 100_000/3)
			for i := range cap(long) {
				long = append(long, run[i%len(run)]*(1+1e-6*float64(i%977)))
			}
			s.Runs[p] = long
		}
	}
	seen := map[*gpuprof.Series]bool{}
	for _, s := range append([]*gpuprof.Series{r.Step, r.BareStep, r.Throughput.Series}, stageSeries(r)...) {
		if s != nil && !seen[s] && len(s.Runs) == 3 {
			seen[s] = true
			many(s)
		}
	}
	return r
}

func stageSeries(r *gpuprof.Run) []*gpuprof.Series {
	var out []*gpuprof.Series
	for _, s := range r.Stages {
		out = append(out, s.Device, s.Host, s.Exposed)
	}
	return out
}

func TestWhatThePageSays(t *testing.T) {
	for name, c := range map[string]struct {
		page string
		want []string
		not  []string
	}{
		"complete": {render(t, fixture.Three()), []string{"12.2 ms", "between processes", "tensor_product", "Roofline", "process 3", "all 1320 samples", "<td>model</td>", "busy-machine", "Suggested changes", "tp_contract"}, []string{"PARTIAL", "INVALID"}},
		"one":      {render(t, fixture.One()), []string{"within one process"}, []string{"between processes"}},
		"partial":  {render(t, fixture.Partial()), []string{">partial</span>", "The run was cut short"}, []string{"throughput</dt>"}},
		"invalid":  {render(t, fixture.Invalid()), []string{">invalid</span>", "no times are reported", "FAILED", "not a number"}, []string{"Timeline", "Distribution", "throughput</dt>"}},
		"sweep":    {render(t, fixture.Sweep()...), []string{"4 runs over batch", "Scaling", "batch=256", "<details", "5.6"}, []string{"PARTIAL"}},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.page, w) {
				t.Errorf("%s does not say %q", name, w)
			}
		}
		for _, w := range c.not {
			if strings.Contains(c.page, w) {
				t.Errorf("%s says %q", name, w)
			}
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

func TestErrors(t *testing.T) {
	if err := writeRuns(failingWriter{}, []*gpuprof.Run{fixture.One()}); err == nil {
		t.Error("a failing writer went unnoticed")
	}
}
