package measure

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

func noteOf(program, process string, at int64, median float64) processNote {
	return processNote{Machine: "m", Program: program, Process: process, At: at, MedianS: median}
}

func TestAnotherOf(t *testing.T) {
	const hour = 3600
	own := []processNote{noteOf("p", "1", 0, 1.00), noteOf("p", "2", 10, 1.02), noteOf("p", "3", 20, 0.98), noteOf("p", "4", 30, 1.03), noteOf("p", "5", 40, 0.97)}
	want, _ := stats.AnotherProcess([][][]float64{{{math.Log(1.00), math.Log(1.02), math.Log(0.98), math.Log(1.03), math.Log(0.97)}}})
	if a := anotherOf(own, noteOf("p", "now", 50, 1)); a == nil || a.Share != want || a.Processes != 5 || !a.Same {
		t.Errorf("%+v, want %v of 5 processes", a, want)
	}
	// What one process measured twice, what another machine measured and what
	// this process measured itself are no more processes.
	more := append([]processNote{noteOf("p", "5", 45, 7), {Machine: "other", Program: "p", Process: "9", MedianS: 9}, noteOf("p", "now", 1, 5)}, own...)
	if a := anotherOf(more, noteOf("p", "now", 50, 1)); a == nil || a.Share != want {
		t.Errorf("%+v, want %v", a, want)
	}
	// With too few notes of this program, the notes of other programs count, each relative to its own.
	var others []processNote
	for i, program := range []string{"a", "b", "c", "d"} {
		v := math.Pow(10, float64(i))
		others = append(others, noteOf(program, program+"1", 0, v), noteOf(program, program+"2", 5, 1.02*v))
	}
	if a := anotherOf(append(others, noteOf("p", "1", 0, 1)), noteOf("p", "now", 50, 1)); a == nil || a.Same || a.Processes != 8 || a.Share > 0.2 {
		t.Errorf("of other programs: %+v", a)
	}
	if a := anotherOf(own[:3], noteOf("p", "now", 50, 1)); a != nil {
		t.Errorf("three processes: %+v", a)
	}
	// Sessions are told by their distance in time.
	if s := sessionsOf([]processNote{noteOf("p", "1", 5*hour, 1), noteOf("p", "2", 0, 1), noteOf("p", "3", 60, 1)}); len(s) != 2 || len(s[0]) != 2 {
		t.Errorf("sessions %v", s)
	}
}

// TestHistoryAcrossRuns: a run of one process finds what earlier processes left,
// and damage in the file costs the history only.
func TestHistoryAcrossRuns(t *testing.T) {
	p := fake{spin: 100 * time.Microsecond}.plan()
	p.Samples, p.CacheDir, p.Build = minSamples, t.TempDir(), "build"
	path := filepath.Join(p.CacheDir, historyFile)
	one := func() *gpuprof.Run {
		r, err := Run(context.Background(), openHost(t), p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := one(); r.Another != nil {
		t.Errorf("the first process knows %+v", r.Another)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	notes := readHistory(path)
	if len(notes) != 1 || notes[0].MedianS <= 0 || notes[0].Program == "" {
		t.Fatalf("left %q", b)
	}
	text := "damaged\n{\"median_s\":-1}\n"
	for _, process := range []string{"a", "b", "c", "d", "e", "f"} {
		text += strings.ReplaceAll(string(b), notes[0].Process, process)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := one(); r.Another == nil || r.Another.Processes != 6 || !r.Another.Same || r.Another.Share != 0 {
		t.Errorf("after six processes alike: %+v", r.Another)
	}
	// The file does not grow without end.
	if err := os.WriteFile(path, []byte(strings.Repeat(text, historyMost/len(text)+2)), 0o644); err != nil {
		t.Fatal(err)
	}
	one()
	if info, err := os.Stat(path); err != nil || info.Size() > historyMost*2/3 {
		t.Errorf("%v bytes, %v", info.Size(), err)
	}
}
