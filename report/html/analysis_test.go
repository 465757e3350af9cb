package html_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/page"
)

func analysisPage(t *testing.T, names ...string) string {
	t.Helper()
	a, xs := fixture.Study(t, names...)
	var b bytes.Buffer
	if err := writePage(&b)(page.Analysis(a, xs)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnalysisPage(t *testing.T) {
	p := analysisPage(t, "dataloader-stall-fires.json")
	for _, want := range []string{`<canvas id="tl"`, "Suggested changes", "dataloader-stall", "num_workers", "Device time", "Steps", "Kernels, copies and fills", `name="generator" content="gpuprof`, "run-data", "starved"} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, url := range regexp.MustCompile(`(src|href)="[^"#]`).FindAllString(p, -1) {
		t.Errorf("the page reaches out: %s", url)
	}
}

// element is the text of the script element with an id.
func element(t *testing.T, page, id string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `id="`+id+`">`)
	if !ok {
		t.Fatalf("no element %s", id)
	}
	text, _, _ := strings.Cut(rest, "</script>")
	return text
}

type timeline struct {
	Span  int64
	Names []string
	Tones []string
	Rows  []struct {
		Name  string
		Boxes []int64
	}
}

// boxes adds up the boxes of a row and checks that they follow one another.
func boxes(t *testing.T, d timeline, row int) (count, covered int64) {
	t.Helper()
	at, end := int64(0), int64(0)
	b := d.Rows[row].Boxes
	if len(b)%5 != 0 {
		t.Fatalf("row %s has %d numbers", d.Rows[row].Name, len(b))
	}
	for i := 0; i < len(b); i += 5 {
		at += b[i]
		if at < end || b[i+1] <= 0 || at+b[i+1] > d.Span {
			t.Fatalf("row %s: box at %d for %d, the last ended at %d, the span is %d", d.Rows[row].Name, at, b[i+1], end, d.Span)
		}
		if int(b[i+2]) >= len(d.Tones) || d.Tones[b[i+2]] == "" || int(b[i+3]) >= len(d.Names) {
			t.Fatalf("row %s: tone %d, name %d", d.Rows[row].Name, b[i+2], b[i+3])
		}
		end = at + b[i+1]
		count, covered = count+b[i+4], covered+b[i+1]
	}
	return count, covered
}

func TestTimelineHoldsEveryOperation(t *testing.T) {
	a, xs := fixture.Study(t, "exposed-comm-fires.json")
	var b bytes.Buffer
	if err := writePage(&b)(page.Analysis(a, xs)); err != nil {
		t.Fatal(err)
	}
	var d timeline
	if err := json.Unmarshal([]byte(element(t, b.String(), "timeline-data")), &d); err != nil {
		t.Fatal(err)
	}
	var ops int64
	for i, r := range d.Rows {
		n, _ := boxes(t, d, i)
		if strings.Contains(r.Name, " stream ") {
			ops += n
		}
	}
	if ops != int64(len(xs[0].T.GPU)) {
		t.Errorf("%d operations in the timeline, %d in the trace", ops, len(xs[0].T.GPU))
	}
}

func TestHostileNamesStayText(t *testing.T) {
	const bad = `</script><script>alert(1)</script><img src=x onerror=alert(1)>`
	tr := &model.Trace{Path: bad, Format: model.Kineto, Rank: -1, Names: []string{bad}, Devices: []model.Device{{Name: bad}}}
	tr.GPU = []model.GPU{{Start: 0, End: 1000, Kind: model.Kernel, Launch: -1}, {Start: 2000, End: 3000, Kind: model.Kernel, Launch: -1}}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writePage(&b)(page.Analysis(a, []*analyze.Index{x})); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<img src=x") || strings.Contains(b.String(), "<script>alert") {
		t.Error("a name became markup")
	}
}

func TestComparisonPage(t *testing.T) {
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	c := rules.Compare(old, now)
	var b bytes.Buffer
	if err := writePage(&b)(page.TraceComparison(c, nil, nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Changes", "dataloader-stall, gone", "Change of the step", "By class"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPageWithoutDevice(t *testing.T) {
	tr := &model.Trace{Path: "cpu.json", Format: model.Kineto, Rank: -1, Names: []string{"aten::mm"}, Lanes: []model.Lane{{Process: 1, Thread: 1}}}
	for i := range int64(4) {
		tr.Host = append(tr.Host, model.Host{Start: i * 1000, End: i*1000 + 900, Kind: model.Op})
	}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writePage(&b)(page.Analysis(a, []*analyze.Index{x})); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "aten::mm") {
		t.Error("the operators are missing")
	}
	if strings.Contains(b.String(), fmt.Sprintf("id=%q", "device-time")) {
		t.Error("a section about devices without a device")
	}
}
