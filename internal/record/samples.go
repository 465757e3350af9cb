package record

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// mostStacks limits the stacks read from a file of samples; the hook writes fewer.
const mostStacks = 1 << 16

// samplesHead is the first line of the hook's file of samples. model.HostSamples describes its fields: Loader has the
// Fetches there, and Borders are indices into Frames.
type samplesHead struct {
	Version   int             `json:"version"`
	Recorded  clocks          `json:"recorded"`
	Loader    clocks          `json:"loader"`
	Sampled   clocks          `json:"sampled"`
	Samples   int             `json:"samples"`
	Waited    float64         `json:"waited_s"`
	Throttled float64         `json:"throttled_s"`
	Frames    []frame         `json:"frames"`
	Borders   []int           `json:"borders"`
	Facts     model.HostFacts `json:"facts"` // its JSON keys are in lower case
}

// sampledStack is one of the lines after the first: a call stack with its sampled time.
type sampledStack struct {
	Doing  model.ThreadState `json:"doing"`
	Callee string            `json:"callee"`
	S      float64           `json:"s"`
	Count  int               `json:"count"`
	Frames []int             `json:"frames"`
}

// clocks has rows of wall time, CPU time, run delay and CPU time of other threads, s, then counts of voluntary and
// involuntary context switches, 0 if not counted.
type clocks [][6]float64

func (c clocks) hostClocks() []model.HostClocks {
	var out []model.HostClocks
	for _, v := range c {
		out = append(out, model.HostClocks{WallS: v[0], CPUS: v[1], DelayS: v[2], OthersS: v[3], Blocks: v[4], Preempted: v[5]})
	}
	return out
}

// frame is stored as the list [file, function, line, expression, library].
type frame model.HostFrame

// UnmarshalJSON implements json.Unmarshaler.
func (f *frame) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&f.File, &f.Function, &f.Line, &f.Text, &f.Library})
}

// SamplesOf returns the hook's host samples for the process of a trace; nil if none can be read.
func (r *Result) SamplesOf(trace string) *model.HostSamples {
	if r.Hook == nil {
		return nil
	}
	at := slices.IndexFunc(r.Hook.Processes, func(p Process) bool { return p.File == filepath.Base(trace) })
	if at < 0 || r.Hook.Processes[at].Samples == "" {
		return nil
	}
	p := &r.Hook.Processes[at]
	s, err := readSamples(filepath.Join(filepath.Dir(trace), filepath.Base(p.Samples)))
	if err != nil {
		return nil
	}
	s.BareS = trimmedMean(bareSteps(p))
	return s
}

// readSamples reads a file of samples; of a truncated file, its complete lines.
func readSamples(path string) (*model.HostSamples, error) {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16*maxStatusLine)
	var head samplesHead
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Version != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading the samples of the host in %s: the first line is not one that gpuprof wrote", path).WithFix("record the program again")
	}
	s := &model.HostSamples{Recorded: head.Recorded.hostClocks(), Fetches: head.Loader.hostClocks(), Sampled: head.Sampled.hostClocks(), Samples: head.Samples,
		WaitedS: head.Waited, ThrottledS: head.Throttled, Facts: head.Facts}
	for _, v := range head.Frames {
		s.Frames = append(s.Frames, model.HostFrame(v))
	}
	known := func(frames []int) bool {
		return !slices.ContainsFunc(frames, func(i int) bool { return i < 0 || i >= len(s.Frames) })
	}
	if known(head.Borders) {
		s.Borders = head.Borders
	}
	for lines.Scan() && len(s.Stacks) < mostStacks {
		var l sampledStack
		if json.Unmarshal(lines.Bytes(), &l) != nil || len(l.Frames) == 0 || l.S <= 0 || !known(l.Frames) {
			continue
		}
		s.Stacks = append(s.Stacks, model.HostStack(l))
	}
	return s, nil
}
