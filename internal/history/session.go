// Package history stores the results of a program over its commits, and finds the commits at which they changed. A
// found change is a proposal; a gate or a bisection decides with new measurements.
//
// A session is one stored measurement of a benchmark at a commit, and an object is its file in the store. A class has
// the properties, such as device and options, in which sessions must agree to be compared; a series is the sessions of
// one benchmark in one class. A trend joins the series whose classes succeed each other. A level is the range of
// sessions between two changes of a metric. A sentinel is a benchmark whose code never changes: if it changes, the
// machine did.
//
// Top down: session.go has the stored document. store.go adds and lists sessions; prune.go keeps the store small.
// points.go caches the figures that reports need. report.go and series.go build a Report, changes.go finds the
// changes, and alarm.go the changes that should fail a build.
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

// Commit is the measured state of the source.
type Commit struct {
	ID     string    `json:"id"` // "" if unknown
	Time   time.Time `json:"time,omitzero"`
	Branch string    `json:"branch,omitempty"`
	Dirty  bool      `json:"dirty,omitempty"` // files differed from the commit
	// Subject is the first line of the commit message, Author the author's name, URL the commit's web page.
	// Sessions before schema 1.1 lack them.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
	URL     string `json:"url,omitempty"`
}

// Short returns the commit as in objects' names: twelve digits, or "unknown".
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

// Benchmark names a benchmark and the program that measured it.
type Benchmark struct {
	Tool string `json:"tool"`
	Name string `json:"name"`
}

// Session is one object of a store: a measurement, never changed.
type Session struct {
	gpuprof.Head
	Project   string           `json:"project"`
	Benchmark Benchmark        `json:"benchmark"`
	Class     string           `json:"class"`
	Commit    Commit           `json:"commit"`
	Session   baseline.Session `json:"session"`
	// Sentinel is the result of a benchmark whose code never changes, measured in the same job.
	Sentinel *baseline.Session `json:"sentinel,omitempty"`
}

// Class has the properties that the results of a series share: results that a gate would not compare differ in them.
type Class struct {
	gpuprof.Head
	Hash  string            `json:"class"`
	Env   map[string]string `json:"env"`
	Knobs map[string]string `json:"knobs"` // options that change the computation
}

// Origin describes where a session comes from.
type Origin struct {
	Project   string
	Benchmark string // "" for the workload and preset, or the format of a foreign file
	Commit    Commit
	// Written is the modification time of the result's file. It is used as the start of the session if the result has
	// no time.
	Written time.Time
}

// NewSession builds the session of a result, with a sentinel's result or nil. The error is ErrInput for an incomplete
// result or a simulated device.
func NewSession(r, sentinel *compare.Result, o Origin) (*Session, error) {
	kept, err := storedSession(r, o.Written)
	if err != nil {
		return nil, err
	}
	s := &Session{
		Head: document.NewHead(document.Session, gpuprof.Tool{Name: "gpuprof"}), Project: o.Project,
		Benchmark: Benchmark{Tool: r.Tool, Name: cmp.Or(o.Benchmark, defaultName(r))}, Commit: o.Commit, Session: kept,
	}
	if sentinel != nil {
		of, err := storedSession(sentinel, o.Written)
		if err != nil {
			return nil, err
		}
		s.Sentinel = &of
	}
	s.Class = s.buildClass().Hash
	document.CleanStrings(s)
	return s, nil
}

func storedSession(r *compare.Result, written time.Time) (baseline.Session, error) {
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

// defaultName returns a name for a benchmark that has none.
func defaultName(r *compare.Result) string {
	if r.Workload != "" {
		return strings.TrimSuffix(r.Workload+"-"+r.Preset, "-")
	}
	return cmp.Or(r.Env["format"], r.Tool, "results")
}

func (s *Session) buildClass() *Class {
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

// top begins the folders of all layout versions; root is this version's folder.
const (
	top  = "v"
	root = "v1"
)

// File name extension of session objects, and the name of a series' class document.
const (
	objectExt = ".json.zst"
	classFile = "class.json"
)

func (s *Session) seriesFolder() string {
	return path.Join(root, baseline.Slug(s.Project), baseline.Slug(s.Benchmark.Name), s.Class)
}

const timeInName = "20060102T150405Z"

// encode returns a session's object and the object's name, with the hash of the uncompressed text.
func (s *Session) encode() (name string, text []byte, err error) {
	text, err = json.Marshal(s)
	if err != nil {
		return "", nil, fmt.Errorf("encoding a session: %w", err)
	}
	at := s.Session.Started.UTC()
	base := fmt.Sprintf("%s-%s-%s%s", at.Format(timeInName), baseline.Slug(s.Commit.Short()), shortHash(text), objectExt)
	return path.Join(s.seriesFolder(), at.Format("2006"), at.Format("01"), base), text, nil
}

func shortHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:shortDigits]
}

// decodeSession decodes the text of an object; name is the object's name, for errors.
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
