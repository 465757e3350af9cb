// Package baseline stores results for later comparisons: several sessions of one workload on one device in one
// file. One session cannot show the spread between sessions, so each further session improves the estimate; package
// compare uses it.
//
// A store is a folder for people and version control:
//
//	<device>/<workload>-<preset>.json
//
// A file has a fingerprint (device, workload, preset, mode, the knobs that change the computation) and one line per
// session. Runs with the same device, workload and preset but another mode or other knobs get their own file, with
// a hash after the preset.
//
// # The samples that a session keeps
//
// A comparison mainly needs the median of every process, so a session keeps eleven samples per metric and process:
// the median and five quantiles on either side of it, 1/22 to 21/22. Their median is the median of all samples, to
// nine digits. A session of fifteen metrics and six processes takes about 15 kB, whether a process took ten samples
// or a million.
package baseline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	// DefaultKeep is the number of latest sessions that a file keeps: twice as many as estimate the spread between
	// sessions, so that one outlier has little weight.
	DefaultKeep = 2 * compare.MinSessions
	// keepSamples is the number of samples kept per process; odd, so that one of them is the median.
	keepSamples = 11
)

// Baseline is one file of sessions.
type Baseline struct {
	gpuprof.Head             // of the tool that wrote the file last
	Fingerprint  Fingerprint `json:"fingerprint"`
	Sessions     []Session   `json:"sessions"` // the earliest first

	// Name is the file's path inside the store, without extension.
	Name string `json:"-"`
	// Path is the path of the file.
	Path string `json:"-"`
}

// Fingerprint holds the fields that a run must share with a baseline for a comparison. A comparison reports
// differences in other fields of the environment (driver, power limit, CPU …).
type Fingerprint struct {
	DeviceKind string            `json:"device_kind"`
	Device     string            `json:"device"`
	Workload   string            `json:"workload"`
	Preset     string            `json:"preset"`
	Mode       string            `json:"mode"`
	ModelKnobs map[string]string `json:"model_knobs"`
}

// Session is one stored run.
type Session struct {
	Started time.Time    `json:"started"`        // start of the measurement, UTC
	Added   time.Time    `json:"added,omitzero"` // time of the addition, UTC
	Machine string       `json:"machine"`        // the user's name for the machine
	Command string       `json:"command"`        // command line of the measurement
	Tool    gpuprof.Tool `json:"tool"`           // measuring program: name, version, commit

	Processes int `json:"processes"`
	Samples   int `json:"samples"` // of the step, before their reduction to eleven
	// ExactDigits is the number of significant digits of the session's exact metrics, 0 for all.
	ExactDigits int `json:"exact_digits,omitempty"`

	Env   map[string]string       `json:"env"`   // must agree between sides
	Facts map[string]string       `json:"facts"` // may explain a change
	Code  map[string]string       `json:"code"`
	Knobs map[string]compare.Knob `json:"knobs"`
	Runs  []compare.RunInfo       `json:"runs"` // by process; empty when unknown

	Metrics []compare.MetricData `json:"metrics"` // with up to eleven samples per process
	Stages  []string             `json:"stages"`  // the metrics that add up to Total
	Total   string               `json:"total"`
}

// FingerprintOf returns a run's fingerprint.
func FingerprintOf(r *gpuprof.Run) Fingerprint {
	f := Fingerprint{DeviceKind: r.Device.Kind, Device: r.Device.Name, Workload: r.Workload, Preset: r.Preset, Mode: string(r.Mode), ModelKnobs: map[string]string{}}
	for _, k := range r.ModelKnobs {
		f.ModelKnobs[k] = r.Knobs[k]
	}
	if r.Requests != nil { // each request metric has its own rate
		for _, k := range r.Requests.RateKnobs {
			delete(f.ModelKnobs, k)
		}
	}
	return f
}

// Equal reports whether runs of two fingerprints can be compared.
func (f Fingerprint) Equal(o Fingerprint) bool { return len(f.listDifferences(o)) == 0 }

// fields lists the fields of a fingerprint with their names in messages.
func (f Fingerprint) fields() map[string]string {
	all := map[string]string{"device_kind": f.DeviceKind, "device": f.Device, "workload": f.Workload, "preset": f.Preset, "mode": f.Mode}
	for k, v := range f.ModelKnobs {
		all["knob "+k] = v
	}
	return all
}

// listDifferences names the fields in which two fingerprints differ, each with both values.
func (f Fingerprint) listDifferences(o Fingerprint) []string {
	var out []string
	there, here := f.fields(), o.fields()
	all := maps.Clone(there)
	maps.Copy(all, here)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		a, inA := there[k]
		b, inB := here[k]
		if a != b || inA != inB {
			out = append(out, fmt.Sprintf("%s is %q there and %q here", k, a, b))
		}
	}
	return out
}

// String describes the fingerprint: "e3nn small on Example CPU".
func (f Fingerprint) String() string {
	return strings.TrimSpace(f.Workload+" "+f.Preset) + " on " + f.Device
}

func (f Fingerprint) fileStem() string { return Slug(f.Workload) + "-" + Slug(f.Preset) }

// hash distinguishes the files of fingerprints with the same device, workload and preset.
func (f Fingerprint) hash() string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%q %q %q", f.DeviceKind, f.Device, f.Mode)
	for _, k := range slices.Sorted(maps.Keys(f.ModelKnobs)) {
		fmt.Fprintf(h, " %q=%q", k, f.ModelKnobs[k])
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// newSession reduces a run to a session. A run that must not become a baseline is an error.
func newSession(r *gpuprof.Run, p Provenance) (Session, error) {
	refuse := func(why, fix string) (Session, error) {
		return Session{}, gpuprof.Errorf(gpuprof.ErrInput, "adding %s to the baselines: %s", FingerprintOf(r), why).WithFix("%s", fix)
	}
	switch {
	case r.Workload == "" || r.Device.Name == "":
		return refuse("the run does not name its workload and device", "give a file written by gpuprof run")
	case r.Status == gpuprof.Partial:
		return refuse("the run is partial ("+cmp.Or(r.Reason, "it was stopped")+")", "run it again to the end")
	case r.Status == gpuprof.Invalid || len(r.Failed()) > 0:
		return refuse("the run is invalid ("+cmp.Or(r.Reason, "a check failed")+")", "correct what the check names and run it again")
	case r.Status != gpuprof.Complete:
		return refuse(fmt.Sprintf("the run has the status %q", r.Status), "give a complete run")
	case r.Device.DeviceInfo["simulated"] != "":
		return refuse("the device is simulated, so its times mean nothing", "run it on a real device")
	case r.Step.N() == 0:
		return refuse("the run has no step times", "give a file written by gpuprof run")
	}
	res, err := compare.FromRun(r)
	if err != nil {
		return Session{}, err
	}
	if res.Ungated != "" {
		return refuse(res.Ungated, "let a full queue refuse requests and measure again")
	}
	s := SessionOf(res)
	s.Started, s.Added, s.Machine, s.Command, s.Tool = r.Started.UTC(), p.Now.UTC(), p.Machine, p.Command, r.Tool
	s.Processes, s.Samples = countProcesses(r.Step), r.Step.N()
	return s, nil
}

// SessionOf reduces a result of any program to a session. Processes and Samples are the largest numbers of any metric.
func SessionOf(res *compare.Result) Session {
	s := Session{
		Env: res.Env, Facts: res.Facts, Code: res.Code, Knobs: maps.Collect(maps.All(res.Knobs)), Runs: append([]compare.RunInfo{}, res.RunInfo...),
		Stages: append([]string{}, res.Stages...), Total: res.Total,
	}
	for _, m := range res.Metrics {
		processes, samples := 0, 0
		m.Runs = slices.Clone(m.Runs)
		for k, run := range m.Runs {
			if len(run) > 0 {
				processes, samples = processes+1, samples+len(run)
			}
			if !m.Exact { // exact metrics keep every sample
				m.Runs[k] = reduceSamples(run)
			}
		}
		s.Metrics = append(s.Metrics, m)
		s.Processes, s.Samples = max(s.Processes, processes), max(s.Samples, samples)
	}
	return s
}

func countProcesses(s *gpuprof.Series) int {
	n := 0
	for _, r := range s.Runs {
		if len(r) > 0 {
			n++
		}
	}
	return n
}

// reduceSamples reduces samples to eleven quantiles, (i+1/2)/11, with the median as the middle; fewer stay unchanged.
func reduceSamples(samples []float64) []float64 {
	if len(samples) <= keepSamples {
		out := make([]float64, len(samples))
		for i, v := range samples {
			out[i] = stats.Significant(v, stats.StoredDigits)
		}
		return out
	}
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	out := make([]float64, keepSamples)
	for i := range out {
		out[i] = stats.Significant(sorted[(2*i+1)*len(sorted)/(2*keepSamples)], stats.StoredDigits)
	}
	out[keepSamples/2] = stats.Significant(stats.Median(sorted), stats.StoredDigits)
	return out
}

// Result converts the session to a Result for package compare.
func (s *Session) Result(name string) *compare.Result {
	r := &compare.Result{
		Source: name, Tool: "gpuprof", Status: gpuprof.Complete, Workload: s.Env["workload"], Preset: s.Env["preset"],
		Env: maps.Clone(s.Env), Facts: maps.Clone(s.Facts), Code: maps.Clone(s.Code), Knobs: maps.Collect(maps.All(s.Knobs)),
		RunInfo: append([]compare.RunInfo(nil), s.Runs...),
		Stages:  slices.Clone(s.Stages), Total: s.Total,
	}
	for _, m := range s.Metrics {
		if m.Exact {
			m.Digits = s.ExactDigits
		}
		r.Metrics = append(r.Metrics, m)
	}
	return r
}

// Results converts the sessions for compare.CompareStored, the latest last.
func (b *Baseline) Results() []*compare.Result {
	var out []*compare.Result
	for i := range b.Sessions {
		out = append(out, b.Sessions[i].Result("baseline "+b.Name))
	}
	return out
}

// add inserts a session by date and drops the earliest sessions beyond keep. It refuses a session that the file
// already holds: a duplicate would make the spread between sessions look small.
func (b *Baseline) add(s Session, keep int) error {
	for i := range b.Sessions {
		if b.Sessions[i].Started.Equal(s.Started) { // even under another machine name
			return gpuprof.Errorf(gpuprof.ErrInput, "adding %s to the baselines: the session of %s is there already", b.Fingerprint, s.Started.Format(time.RFC3339)).WithFix("measure it again to add another")
		}
	}
	b.Sessions = append(b.Sessions, s)
	slices.SortStableFunc(b.Sessions, func(x, y Session) int { return x.Started.Compare(y.Started) })
	b.Sessions = b.Sessions[max(0, len(b.Sessions)-keep):]
	return nil
}

// encode writes a line per session, so that version control shows additions and removals.
func (b *Baseline) encode() ([]byte, error) {
	head := *b
	head.Sessions = nil
	text, err := json.MarshalIndent(head, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding baseline: %w", err)
	}
	out := strings.TrimSuffix(string(text), "null\n}") + "["
	for i := range b.Sessions {
		line, err := json.Marshal(&b.Sessions[i])
		if err != nil {
			return nil, fmt.Errorf("encoding baseline: %w", err)
		}
		if i > 0 {
			out += ","
		}
		out += "\n  " + string(line)
	}
	return []byte(out + "\n ]\n}\n"), nil
}

// decode parses the text that encode writes. name is the file's name, for messages.
func decode(text []byte, name string) (*Baseline, error) {
	fail := func(err error) (*Baseline, error) {
		return nil, gpuprof.Unreadable("reading baseline "+name, err, "restore the file, or remove it and add its runs again")
	}
	var b Baseline
	if err := document.Decode(text, name, &b, document.Baseline); err != nil {
		return nil, err
	}
	if len(b.Sessions) == 0 {
		return fail(fmt.Errorf("it holds no session"))
	}
	for i := range b.Sessions {
		if len(b.Sessions[i].Metrics) == 0 {
			return fail(fmt.Errorf("its session %d holds no metric", i+1))
		}
		if err := b.Sessions[i].checkSigns(); err != nil {
			return fail(fmt.Errorf("its session %d: %w", i+1, err))
		}
		if gpuprof.MinorOf(b.Version) == 0 { // version 1.0 rounded counters
			b.Sessions[i].ExactDigits = stats.StoredDigits
		}
	}
	b.Version = document.Version(document.Baseline) // in memory the version is current
	return &b, nil
}

// checkSigns returns an error for a negative figure, with its name.
func (s *Session) checkSigns() error {
	for _, m := range s.Metrics {
		for p, samples := range m.Runs {
			for i, v := range samples {
				if v < 0 {
					return fmt.Errorf("runs[%d][%d] of %s is %g, below 0", p, i, m.Name, v)
				}
			}
		}
	}
	return nil
}
