package stacks_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/pprof"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/report/stacks"
)

// sampledTrace is a trace of one window of length ns with samples of three stacks, two of them of one third each.
func sampledTrace(t *testing.T, rank int, ns int64) *analyze.Index {
	t.Helper()
	tr := &model.Trace{Path: "s.json", Rank: rank, Names: []string{"aten::mm"}, Lanes: []model.Lane{{Process: 1, Thread: 1}},
		Host: []model.Host{{Start: 0, End: ns, Kind: model.Op}}}
	tr.Finish()
	tr.Sampled = &model.HostSamples{Samples: 9,
		Frames: []model.HostFrame{{File: "/u/train.py", Function: "<module>", Line: 20}, {File: "/u/train.py", Function: "odd;name", Line: 3}, {File: "/u/data/train.py", Function: "load", Line: 3}},
		Stacks: []model.HostStack{{Doing: model.InPython, S: 0.01, Count: 1, Frames: []int{0, 1}}, {Doing: model.Blocked, S: 0.01, Count: 1, Frames: []int{0, 2}},
			{Doing: model.InPython, S: 0.007, Count: 1, Frames: []int{0}}, {Doing: model.InNative, S: 0.003, Count: 1, Frames: []int{0, 2}}}}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// The sums of folded stacks, of speedscope and of the profile are the step of the account.
func TestWritersAgreeWithAccount(t *testing.T) {
	for _, ns := range []int64{100_000_000, 99_999_999, 7_000_001} {
		x := sampledTrace(t, -1, ns)
		want := x.HostAccount().Step()
		if want != ns {
			t.Fatalf("the account's window is %d ns, want %d", want, ns)
		}
		xs := []*analyze.Index{x}
		if got := sum(speedscope(t, xs).Profiles[0].Weights); got != want {
			t.Errorf("speedscope has %d ns, the account %d", got, want)
		}
		if got := foldedSum(t, xs); got != (want+500)/1000 {
			t.Errorf("the folded stacks have %d us, the account %d ns", got, want)
		}
		var b bytes.Buffer
		if err := pprof.WriteTrace(&b, xs, "1"); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for _, s := range p.Sample {
			got += s.Value[3]
		}
		if got != want {
			t.Errorf("the profile has %d ns, the account %d", got, want)
		}
	}
}

// document is a file of speedscope by the names of its schema.
type document struct {
	Schema string `json:"$schema"`
	Shared struct {
		Frames []struct {
			Name, File string
			Line       int
		}
	}
	Profiles []struct {
		Type, Name, Unit     string
		StartValue, EndValue *int64
		Samples              [][]int
		Weights              []int64
	}
}

func speedscope(t *testing.T, xs []*analyze.Index) document {
	t.Helper()
	var b bytes.Buffer
	if err := stacks.WriteSpeedscope(&b, xs, "1"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), runfile.SpeedscopeMark) {
		t.Errorf("gpuprof does not find its own file again: %.40s", b.String())
	}
	var d document
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// What the schema of speedscope requires of a profile of samples.
func TestSpeedscopeSchema(t *testing.T) {
	d := speedscope(t, []*analyze.Index{sampledTrace(t, 0, 30_000_000), sampledTrace(t, 1, 60_000_000)})
	if d.Schema != "https://www.speedscope.app/file-format-schema.json" || len(d.Profiles) != 2 {
		t.Fatalf("%s, %d profiles", d.Schema, len(d.Profiles))
	}
	for i, p := range d.Profiles {
		if p.Type != "sampled" || p.Unit != "nanoseconds" || p.Name != "rank "+strconv.Itoa(i) || *p.StartValue != 0 || *p.EndValue != sum(p.Weights) || len(p.Samples) != len(p.Weights) {
			t.Errorf("profile %+v", p)
		}
		for _, stack := range p.Samples {
			for _, k := range stack {
				if k < 0 || k >= len(d.Shared.Frames) {
					t.Errorf("frame %d of %d", k, len(d.Shared.Frames))
				}
			}
			if f := d.Shared.Frames[stack[0]]; f.Name != "<module>" || f.File != "/u/train.py" || f.Line != 20 {
				t.Errorf("the outermost frame is %+v", f)
			}
		}
	}
}

// A line is a stack and a whole number; a semicolon in a name separates no frames, and files of one name are two.
func TestFoldedLines(t *testing.T) {
	text := folded(t, []*analyze.Index{sampledTrace(t, -1, 30_000_000)})
	for _, want := range []string{
		"<module> (/u/train.py:20);odd,name (/u/train.py:3) 10000\n", "<module> (/u/train.py:20);load (/u/data/train.py:3) 10000\n",
		"<module> (/u/train.py:20);load (/u/data/train.py:3) 3000\n", "<module> (/u/train.py:20) 7000\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if text := folded(t, []*analyze.Index{sampledTrace(t, 0, 3000), sampledTrace(t, 1, 3000)}); !strings.Contains(text, "rank 1;<module> ") {
		t.Errorf("the ranks are not told apart:\n%s", text)
	}
}

func TestWithoutSamples(t *testing.T) {
	tr := &model.Trace{Path: "s.json", Rank: -1, Names: []string{"aten::mm"}, Lanes: []model.Lane{{Process: 1}}, Host: []model.Host{{End: 100, Kind: model.Op}}}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, err := range []error{stacks.WriteFolded(&b, []*analyze.Index{x}), stacks.WriteSpeedscope(&b, []*analyze.Index{x}, "1")} {
		if _, fix := gpuprof.FixOf(err); !strings.Contains(fix, "gpuprof run -o FOLDER -- CMD") {
			t.Errorf("the error does not tell how to record samples: %v", err)
		}
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
}

func folded(t *testing.T, xs []*analyze.Index) string {
	t.Helper()
	var b bytes.Buffer
	if err := stacks.WriteFolded(&b, xs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func foldedSum(t *testing.T, xs []*analyze.Index) (us int64) {
	t.Helper()
	line := regexp.MustCompile(`^(.+) (\d+)$`)
	for l := range strings.Lines(folded(t, xs)) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Fatalf("line %q", l)
		}
		n, _ := strconv.ParseInt(m[2], 10, 64)
		us += n
	}
	return us
}

func sum(weights []int64) (total int64) {
	for _, w := range weights {
		total += w
	}
	return total
}
