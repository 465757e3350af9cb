package measure

import (
	"context"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// theorist is a session with one check of a stage and one known answer.
type theorist struct {
	workloads.Session
	asked int
	wrong bool
}

func (s *theorist) Check(context.Context) ([]gpuprof.Check, error) {
	return []gpuprof.Check{{Stage: "first", Pass: true}}, nil
}

func (s *theorist) KnownAnswers(context.Context) ([]gpuprof.Check, error) {
	s.asked++
	return []gpuprof.Check{{Stage: "M/D/1", Virtual: true, Pass: !s.wrong}}, nil
}

// What theory knows of a workload is computed once for all settings of a build, and again where it is wrong or where no
// cache was asked for.
func TestKnownAnswersOncePerBuild(t *testing.T) {
	p := fake{}.plan()
	p.CacheDir, p.Build = t.TempDir(), "build-1"
	s, want := &theorist{}, []string{"first", "M/D/1"}
	check := func(p Plan, asked int) {
		t.Helper()
		checks, err := checkOrCached(t.Context(), openHost(t), s, p, "")
		var stages []string
		for _, c := range checks {
			stages = append(stages, c.Stage)
		}
		if (err == nil) == s.wrong || !slices.Equal(stages, want) || s.asked != asked {
			t.Errorf("%v, %v; asked %d times, want %d", stages, err, s.asked, asked)
		}
	}
	check(p, 1)
	check(p, 1)
	p.Knobs = gpuprof.Settings{"size": "2"}
	check(p, 1)
	p.Build = "build-2"
	s.wrong = true
	check(p, 2)
	check(p, 3)
	s.wrong = false
	check(p, 4)
	p.CacheDir = ""
	check(p, 5)
	p.Build, p.CacheDir = "", t.TempDir()
	check(p, 6)
	if _, err := p.checkSession(t.Context(), s, ""); err != nil || s.asked != 7 {
		t.Errorf("run --check took a cached answer: asked %d times, %v", s.asked, err)
	}
}
