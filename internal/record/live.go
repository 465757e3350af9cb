package record

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// LiveStretch is the length of the last part of a recording that a live view shows.
const LiveStretch = 30 * time.Second

// Live summarizes a process's activity at the end of its recording.
type Live struct {
	File  string
	Rank  int // -1 unknown
	At    time.Time
	Over  time.Duration // measured time
	Ended bool          // the recording has ended
	// StepNS is the median time of the Steps steps, ns; 0 without steps. Source is the event that marks the steps.
	Steps   int
	StepNS  int64
	Source  string
	Devices []LiveDevice
	// Kernels and Copies (copies and fills) are rows by name, the longest first.
	Kernels, Copies []LiveRow
	Lost            int64 // upper limit of the lost records
}

// LiveDevice has the shares of the measured time in which a device was busy or waited for launches.
type LiveDevice struct {
	ID            int
	Busy, Starved float64 // 0 to 1
}

// LiveRow sums the operations of one name.
type LiveRow struct {
	Name      string
	Count     int
	NS, Bytes int64
}

// LiveOf summarizes each process's newest recording in a folder: its last part, as long as stretch. It omits processes
// without activity in that time.
func LiveOf(ctx context.Context, dir string, stretch time.Duration) ([]Live, error) {
	var out []Live
	for _, path := range liveFiles(dir) {
		l, ok, err := liveFile(ctx, path, stretch)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// liveFiles lists each process's newest recording in a folder, whether or not it is renamed to a trace.
func liveFiles(dir string) []string {
	newest := map[string]string{}
	for _, pattern := range []string{"trace-*.gpt", "cuda-*.gpt"} {
		files := outside.Dir(dir).Glob(pattern)
		slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
		for _, path := range files {
			name := strings.TrimPrefix(strings.TrimPrefix(filepath.Base(path), "trace-"), "cuda-")
			pid, _, _ := strings.Cut(strings.TrimSuffix(name, ".gpt"), "-")
			newest[pid] = path
		}
	}
	return slices.Sorted(maps.Values(newest))
}

func liveFile(ctx context.Context, path string, stretch time.Duration) (l Live, ok bool, err error) {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return l, false, nil // the file was renamed meanwhile
	}
	defer f.Close()
	t, at, err := cupti.ReadSince(ctx, f, path, int64(stretch))
	if err != nil || t == nil {
		return l, false, err
	}
	x, err := analyze.NewIndex(ctx, t)
	if err != nil {
		return l, false, err
	}
	span := model.Span{Start: max(at-int64(stretch), t.First), End: max(at, x.Span.End)}
	l = Live{File: filepath.Base(path), Rank: t.Rank, At: time.Unix(0, span.End), Over: time.Duration(span.Len()), Ended: hasEnd(path), Lost: t.Lost}
	if x.Stepped() {
		l.Steps, l.StepNS, l.Source = len(x.Steps), medianStep(x), x.StepSource
	}
	for _, d := range x.Devices {
		l.Devices = append(l.Devices, LiveDevice{ID: t.Devices[d.Device].ID, Busy: busyShare(d.Busy, span), Starved: busyShare(d.Starved, span)})
	}
	l.addRows(t)
	return l, true, nil
}

func busyShare(s model.Spans, of model.Span) float64 {
	if of.Len() <= 0 {
		return 0
	}
	return float64(s.TotalIn(of)) / float64(of.Len())
}

func (l *Live) addRows(t *model.Trace) {
	rows := map[model.NameID]*LiveRow{}
	kernels := map[model.NameID]bool{}
	for i := range t.GPU {
		g := &t.GPU[i]
		r := rows[g.Name]
		if r == nil {
			r = &LiveRow{Name: t.Name(g.Name)}
			rows[g.Name] = r
			kernels[g.Name] = g.Kind == model.Kernel
		}
		r.Count++
		r.NS += g.Dur()
		r.Bytes += g.Bytes
	}
	for id, r := range rows {
		if kernels[id] {
			l.Kernels = append(l.Kernels, *r)
		} else {
			l.Copies = append(l.Copies, *r)
		}
	}
	for _, rows := range [][]LiveRow{l.Kernels, l.Copies} {
		slices.SortFunc(rows, func(a, b LiveRow) int { return cmp.Or(cmp.Compare(b.NS, a.NS), strings.Compare(a.Name, b.Name)) })
	}
}
