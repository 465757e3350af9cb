// Package history keeps the results of a program over its commits, and says where
// they changed. It proposes; a gate or a bisection decides on fresh data.
//
// The package reads top down: session.go has what is stored, bucket.go where (s3.go
// in an object store), store.go adds sessions and lists them, pack.go and prune.go
// keep the store small, points.go is what is kept of a session for reading, report.go
// and series.go make a Report of them, changes.go finds the changes in it, alarm.go
// says which of them a build should fail for.
package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Commit is the state of the source that a session measured.
type Commit struct {
	ID     string    `json:"id"` // "" unknown
	Time   time.Time `json:"time,omitzero"`
	Branch string    `json:"branch,omitempty"`
	Dirty  bool      `json:"dirty,omitempty"` // files differed from the commit
}

// Short is the commit as names of objects have it: twelve digits, or "unknown".
func (c Commit) Short() string {
	if c.ID == "" {
		return unknownCommit
	}
	return c.ID[:min(len(c.ID), shortDigits)]
}

const (
	unknownCommit = "unknown"
	shortDigits   = 12
	classDigits   = 8
)

// Benchmark says what was measured, and by which program.
type Benchmark struct {
	Tool string `json:"tool"`
	Name string `json:"name"`
}

// Session is one object of a store: one measurement, never changed.
type Session struct {
	gpuprof.Head
	Project   string           `json:"project"`
	Benchmark Benchmark        `json:"benchmark"`
	Class     string           `json:"class"`
	Commit    Commit           `json:"commit"`
	Session   baseline.Session `json:"session"`
	// Sentinel is what a benchmark whose code never changes gave in the same job.
	Sentinel *baseline.Session `json:"sentinel,omitempty"`
}

// Class is what results must share to be one series: what a gate refuses to compare
// is another class.
type Class struct {
	gpuprof.Head
	Hash  string            `json:"class"`
	Env   map[string]string `json:"env"`
	Knobs map[string]string `json:"knobs"` // those that change what is computed
}

// Origin is where a session comes from.
type Origin struct {
	Project   string
	Benchmark string // "" is the workload and preset, or the format of a foreign file
	Commit    Commit
	// Written is when the result's file was last changed: the start of a session whose
	// result has no time of its own.
	Written time.Time
}

// NewSession makes the object of a result, and of the sentinel's where there is one.
// A result that is not complete, or of a simulated device, is ErrInput.
func NewSession(r, sentinel *compare.Result, o Origin) (*Session, error) {
	kept, err := keptOf(r, o.Written)
	if err != nil {
		return nil, err
	}
	s := &Session{
		Head: document.NewHead(document.Session, gpuprof.Tool{Name: "gpuprof"}), Project: o.Project,
		Benchmark: Benchmark{Tool: r.Tool, Name: cmp.Or(o.Benchmark, nameOf(r))}, Commit: o.Commit, Session: kept,
	}
	if sentinel != nil {
		of, err := keptOf(sentinel, o.Written)
		if err != nil {
			return nil, err
		}
		s.Sentinel = &of
	}
	s.Class = s.class().Hash
	document.CleanStrings(s)
	return s, nil
}

// keptOf is what is stored of a result.
func keptOf(r *compare.Result, written time.Time) (baseline.Session, error) {
	refuse := func(why, fix string) (baseline.Session, error) {
		return baseline.Session{}, gpuprof.Errorf(gpuprof.ErrInput, "adding %s to the history: %s", r.Source, why).WithFix("%s", fix)
	}
	switch {
	case len(r.Failed) > 0:
		return refuse("a part of it failed ("+r.Failed[0]+")", "correct that and measure again")
	case r.Status != gpuprof.Complete:
		return refuse(fmt.Sprintf("it is %s (%s)", r.Status, cmp.Or(r.Reason, "it was stopped")), "run it again to the end")
	case r.Env["simulated"] != "":
		return refuse("its device is simulated, so its times mean nothing", "measure on a real device")
	case !slices.ContainsFunc(r.Metrics, func(m compare.MetricData) bool { return len(slices.Concat(m.Runs...)) > 0 }):
		return refuse("it holds no figure", "give a file with results")
	}
	kept := baseline.SessionOf(r)
	kept.Started = written.UTC().Truncate(time.Second)
	if len(r.RunInfo) > 0 && r.RunInfo[0].StartS > 0 {
		kept.Started = time.Unix(int64(r.RunInfo[0].StartS), 0).UTC()
	}
	return kept, nil
}

// nameOf is what a benchmark is called that was given no name.
func nameOf(r *compare.Result) string {
	if r.Workload != "" {
		return strings.TrimSuffix(r.Workload+"-"+r.Preset, "-")
	}
	return cmp.Or(r.Env["format"], r.Tool, "results")
}

// class is what the session must share with others of its series.
func (s *Session) class() *Class {
	c := &Class{Head: document.NewHead(document.Class, gpuprof.Tool{Name: "gpuprof"}), Env: s.Session.Env, Knobs: map[string]string{}}
	for name, k := range s.Session.Knobs {
		if k.Model {
			c.Knobs[name] = k.Value
		}
	}
	h := fnv.New64a()
	for _, m := range []map[string]string{c.Env, c.Knobs} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(h, "%q=%q ", k, m[k])
		}
		fmt.Fprint(h, ";")
	}
	c.Hash = fmt.Sprintf("%016x", h.Sum64())[:classDigits]
	return c
}

// top is the folder of every version of the layout; root that of this one.
const (
	top  = "v"
	root = "v1"
)

// Extensions of objects.
const (
	objectExt = ".json.zst"
	classFile = "class.json"
	packWord  = "pack-"
)

// folder is where the objects of the session's series are.
func (s *Session) folder() string {
	return path.Join(root, baseline.Slug(s.Project), baseline.Slug(s.Benchmark.Name), s.Class)
}

const timeInName = "20060102T150405Z"

// encode gives the session's object and its name. The name holds the hash of what is
// compressed, so that it does not depend on the compressor.
func (s *Session) encode() (name string, text []byte, err error) {
	text, err = json.Marshal(s)
	if err != nil {
		return "", nil, fmt.Errorf("encoding a session: %w", err)
	}
	at := s.Session.Started.UTC()
	base := fmt.Sprintf("%s-%s-%s%s", at.Format(timeInName), baseline.Slug(s.Commit.Short()), hashOf(text), objectExt)
	return path.Join(s.folder(), at.Format("2006"), at.Format("01"), base), text, nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:shortDigits]
}

// decodeSession reads the text of an object; name is its own, for errors.
func decodeSession(text []byte, name string) (*Session, error) {
	var s Session
	if err := document.Decode(text, name, &s, document.Session); err != nil {
		return nil, err
	}
	if len(s.Session.Metrics) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading session %s: it holds no metric", name).WithFix("add the result again")
	}
	return &s, nil
}
