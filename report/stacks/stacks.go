// Package stacks writes sampled stacks of host threads in analysed traces, and stacks that hold memory in snapshots:
// for speedscope.app, and folded for flamegraph.pl. A sampled stack's weight is its time in the mean step, s; a memory
// stack's weight is its bytes.
package stacks

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// thread has the stacks of one trace or device.
type thread struct {
	name  string // "rank 3" if there are several traces, else the trace
	trees []analyze.HostTree
}

// threadsOf returns the traces with samples; ErrInput if there are none.
func threadsOf(xs []*analyze.Index) ([]thread, error) {
	var out []thread
	for i, x := range xs {
		a := x.HostAccount()
		if a == nil || len(a.Stacks) == 0 {
			continue
		}
		t := thread{name: view.CutPlace(x.T.Path, 200), trees: a.Stacks}
		switch {
		case len(xs) > 1 && x.T.Rank >= 0:
			t.name = fmt.Sprintf("rank %d", x.T.Rank)
		case len(xs) > 1:
			t.name = fmt.Sprintf("trace %d", i+1)
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "writing the sampled stacks of the host thread: no trace given has samples beside it").
			WithFix("record a Python program with gpuprof run -o FOLDER -- CMD, whose steps after the recorded ones are sampled, and give FOLDER")
	}
	return out, nil
}

// frameName names a frame so that other tools can group by it: function, file and line.
func frameName(f model.HostFrame) string {
	if f.File == "" {
		return view.Cut(f.Function, 120)
	}
	return view.Cut(f.Function, 120) + " (" + view.CutPlace(f.File, 120) + fmt.Sprintf(":%d)", f.Line)
}

// WriteFolded writes a line per stack: its frames, outermost first, separated by semicolons, and whole microseconds.
// With several traces the first frame is the rank. Rounding carries its remainder to the next stack, so that the sum
// is exact; a stack that rounds to 0 has no line.
func WriteFolded(w io.Writer, xs []*analyze.Index) error {
	threads, err := threadsOf(xs)
	if err != nil {
		return err
	}
	return writeFolded(w, threads, len(xs) > 1, 1000)
}

// writeFolded writes the threads, with their names if there are several. It divides weights by unit.
func writeFolded(w io.Writer, threads []thread, several bool, unit int64) error {
	for _, t := range threads {
		sum, before := int64(0), int64(0)
		for _, tree := range t.trees {
			sum += tree.NS
			whole := (sum + unit/2) / unit
			weight := whole - before
			before = whole
			if weight == 0 {
				continue
			}
			var frames []string
			if several {
				frames = append(frames, t.name)
			}
			for _, f := range tree.Lines {
				frames = append(frames, strings.ReplaceAll(frameName(f), ";", ","))
			}
			if _, err := fmt.Fprintf(w, "%s %d\n", strings.Join(frames, ";"), weight); err != nil {
				return err
			}
		}
	}
	return nil
}

// scopeFile is a speedscope file: https://www.speedscope.app/file-format-schema.json. Exporter must be first, because
// gpuprof recognizes its own files by it.
type scopeFile struct {
	Exporter string      `json:"exporter"`
	Schema   string      `json:"$schema"`
	Name     string      `json:"name"`
	Shared   scopeShared `json:"shared"`
	Profiles []scope     `json:"profiles"`
}

type scopeShared struct {
	Frames []scopeFrame `json:"frames"`
}

type scopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// scope is a profile of type "sampled": stacks as indices of shared frames, outermost first, and a weight per stack.
type scope struct {
	Type    string  `json:"type"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Start   int64   `json:"startValue"`
	End     int64   `json:"endValue"`
	Samples [][]int `json:"samples"`
	Weights []int64 `json:"weights"`
}

// WriteSpeedscope writes a profile per trace with samples, with weights in ns. tool is gpuprof's version.
func WriteSpeedscope(w io.Writer, xs []*analyze.Index, tool string) error {
	threads, err := threadsOf(xs)
	if err != nil {
		return err
	}
	return writeScopes(w, threads, "host thread, mean step", "nanoseconds", tool)
}

// writeScopes writes a profile per thread, with weights in a unit of speedscope.
func writeScopes(w io.Writer, threads []thread, name, unit, tool string) error {
	file := scopeFile{Exporter: strings.TrimSpace("gpuprof " + view.Cut(tool, 40)), Schema: "https://www.speedscope.app/file-format-schema.json", Name: name}
	at := map[scopeFrame]int{}
	for _, t := range threads {
		p := scope{Type: "sampled", Name: t.name, Unit: unit}
		for _, tree := range t.trees {
			stack := make([]int, 0, len(tree.Lines))
			for _, f := range tree.Lines {
				frame := scopeFrame{Name: view.Cut(f.Function, 300), File: view.CutPlace(f.File, 300), Line: f.Line}
				k, ok := at[frame]
				if !ok {
					k = len(file.Shared.Frames)
					at[frame] = k
					file.Shared.Frames = append(file.Shared.Frames, frame)
				}
				stack = append(stack, k)
			}
			p.Samples, p.Weights, p.End = append(p.Samples, stack), append(p.Weights, tree.NS), p.End+tree.NS
		}
		file.Profiles = append(file.Profiles, p)
	}
	return json.NewEncoder(w).Encode(&file)
}
