package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Provenance describes where and how sessions were measured.
type Provenance struct {
	Now     time.Time
	Machine string // the user's name for the machine
	Command string // command that measured
	Tool    gpuprof.Tool
}

// Added is the effect of adding one run.
type Added struct {
	Name     string // of the baseline
	Path     string
	Sessions int // in it after the addition
	Dropped  int // pruned
}

// Add adds each run as a session to the matching baseline and keeps the latest keep sessions of every file (0 is
// DefaultKeep). A run that must not become a baseline (partial, invalid, simulated) is ErrInput, and then nothing is
// written. Add warns of runs with too few processes and of runs whose environment differs from the other sessions.
func (s *Store) Add(runs []*gpuprof.Run, p Provenance, keep int) ([]Added, []gpuprof.Warning, error) {
	if keep < 0 {
		return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "adding to the baselines: %d sessions cannot be kept", keep).WithFix("give 1 or more")
	}
	keep = cmp.Or(keep, DefaultKeep)
	if len(runs) == 0 {
		return nil, nil, gpuprof.Errorf(gpuprof.ErrInput, "adding to the baselines: there is no run").WithFix("give a file written by gpuprof run")
	}
	sessions, err := newSessions(runs, p)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, nil, wrapError("writing", s.dir, err)
	}
	var out []Added
	warnings := fewProcesses(runs)
	err = s.holdLock(func() error {
		files, err := s.planChanges(sessions, keep)
		if err != nil {
			return err
		}
		for _, f := range files {
			f.file.Tool = p.Tool
			if err := s.write(f); err != nil {
				return err
			}
			warnings = append(warnings, f.file.warnMixed()...)
			out = append(out, Added{f.file.Name, f.file.Path, len(f.file.Sessions), f.before + f.added - len(f.file.Sessions)})
		}
		return nil
	})
	if err != nil {
		return out, nil, err
	}
	return out, warnings, nil
}

// fitting is a session with the fingerprint of its run, which selects the session's file.
type fitting struct {
	Fingerprint
	session Session
}

// newSessions converts all runs to sessions. It returns an error for all if one run is refused.
func newSessions(runs []*gpuprof.Run, p Provenance) ([]fitting, error) {
	var out []fitting
	for _, r := range runs {
		if r == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "adding to the baselines: there is no run").WithFix("give a file written by gpuprof run")
		}
		session, err := newSession(r, p)
		if err != nil {
			return nil, err
		}
		out = append(out, fitting{FingerprintOf(r), session})
	}
	return out, nil
}

func fewProcesses(runs []*gpuprof.Run) []gpuprof.Warning {
	var out []gpuprof.Warning
	for _, r := range runs {
		if n := countProcesses(r.Step); n < compare.MinRuns {
			out = append(out, gpuprof.Warning{
				Code: "few-processes",
				Text: fmt.Sprintf("the run of %s has %d of the %d processes that a verdict needs, because the samples of one process are not independent", FingerprintOf(r), n, compare.MinRuns),
				Fix:  fmt.Sprintf("measure with --runs %d", compare.MinRuns),
			})
		}
	}
	return out
}

// warnMixed warns of sessions that differ in a field that must agree for a gate. Such sessions may share a file, since
// drivers are updated and defaults change. But a gate against the file gives no verdict until the older sessions are
// dropped.
func (b *Baseline) warnMixed() []gpuprof.Warning {
	values := map[string]string{}
	var differ []string
	note := func(field, value string) {
		if old, ok := values[field]; ok && old != value && !slices.Contains(differ, field) {
			differ = append(differ, field)
		}
		values[field] = value
	}
	for i := range b.Sessions {
		for k, v := range b.Sessions[i].Env {
			note(k, v)
		}
		for k, v := range b.Sessions[i].Knobs {
			note(k, v.Value)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return []gpuprof.Warning{{
		Code: "mixed-sessions",
		Text: fmt.Sprintf("the sessions of %s differ in %s, and no gate against them gives a verdict", b.Name, strings.Join(differ, ", ")),
		Fix:  "keep what differs in a folder of its own (--dir), or remove the baseline with gpuprof history baseline rm and add what belongs together",
	}}
}

// change is a planned change of one baseline file. before and added are numbers of sessions, before the change and
// added by it.
type change struct {
	file          *Baseline
	before, added int
	was           fs.FileInfo // nil for a new file
}

// planChanges makes every change in memory first, so that a refused run leaves nothing half done.
func (s *Store) planChanges(sessions []fitting, keep int) ([]*change, error) {
	var out []*change
	for _, x := range sessions {
		f := x.Fingerprint
		i := slices.IndexFunc(out, func(c *change) bool { return c.file.Fingerprint.Equal(f) })
		if i < 0 {
			c, err := s.open(f, out)
			if err != nil {
				return nil, err
			}
			i, out = len(out), append(out, c)
		}
		if err := out[i].file.add(x.session, keep); err != nil {
			return nil, err
		}
		out[i].added++
	}
	return out, nil
}

// open returns the file of a fingerprint, or a new file under an unused name.
func (s *Store) open(f Fingerprint, planned []*change) (*change, error) {
	taken := func(name string) bool {
		return slices.ContainsFunc(planned, func(c *change) bool { return c.file.Name == name })
	}
	plain := path.Join(Slug(f.Device), f.fileStem())
	for _, name := range []string{plain, plain + "-" + f.hash()} {
		if taken(name) {
			continue
		}
		file := s.file(name)
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return &change{file: &Baseline{Head: document.NewHead(document.Baseline, gpuprof.Tool{}), Fingerprint: f, Name: name, Path: file}}, nil
		}
		if err != nil {
			return nil, wrapError("reading", file, err)
		}
		b, err := s.load(name)
		if err != nil {
			return nil, err
		}
		if b.Fingerprint.Equal(f) {
			return &change{file: b, before: len(b.Sessions), was: info}, nil
		}
	}
	return nil, gpuprof.Errorf(gpuprof.ErrInput, "adding %s to the baselines: %s holds another fingerprint under that name", f, s.file(plain+"-"+f.hash())).WithFix("remove it with gpuprof history baseline rm")
}
