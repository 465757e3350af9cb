package compare

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// Samples holds one side's samples of a metric in its unit, a list per run (Turn.Run is the index). A value that is
// not finite is null in JSON and NaN after decoding.
type Samples [][]float64

// MarshalJSON implements json.Marshaler.
func (s Samples) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, run := range s {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		for j, v := range run {
			if j > 0 {
				out = append(out, ',')
			}
			if !gpuprof.IsFinite(v) {
				out = append(out, "null"...)
				continue
			}
			out = strconv.AppendFloat(out, v, 'g', -1, 64)
		}
		out = append(out, ']')
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Samples) UnmarshalJSON(b []byte) error {
	var runs [][]*float64
	if err := json.Unmarshal(b, &runs); err != nil {
		return err
	}
	*s = make(Samples, len(runs))
	for i, run := range runs {
		(*s)[i] = make([]float64, len(run))
		for j, v := range run {
			(*s)[i][j] = math.NaN()
			if v != nil {
				(*s)[i][j] = *v
			}
		}
	}
	return nil
}

// SideSamples holds the samples of both sides; a side without samples is null.
type SideSamples struct {
	Old Samples `json:"old"`
	New Samples `json:"new"`
}

// Turn is one measured process.
type Turn struct {
	Stage int    `json:"stage,omitempty"` // of a gate: 1, 2 or 3
	Side  string `json:"side"`            // "old" or "new"
	Run   int    `json:"run"`             // index of the process among its side's samples, from 0
	// StartS is the Unix time of the first sample, s; 0 when unknown: then the old side counts as the earlier one.
	StartS  float64  `json:"start_s,omitempty"`
	Flagged float64  `json:"flagged,omitempty"` // share of the samples that carry a flag
	Codes   []string `json:"codes,omitempty"`   // of those flags
}

// Fingerprint holds the fields of a side in which compare looks for differences.
type Fingerprint struct {
	Tool  string            `json:"tool"`
	Env   map[string]string `json:"env"`   // must agree
	Facts map[string]string `json:"facts"` // may explain a change
	Code  map[string]string `json:"code"`
	Knobs map[string]Knob   `json:"knobs"`
}

// Fingerprints holds the fingerprints of both sides; budgets have a new side only.
type Fingerprints struct {
	Old *Fingerprint `json:"old,omitempty"`
	New *Fingerprint `json:"new,omitempty"`
}

func fingerprintOf(r *Result) *Fingerprint {
	return &Fingerprint{Tool: r.Tool, Env: orEmpty(r.Env), Facts: orEmpty(r.Facts), Code: orEmpty(r.Code), Knobs: orEmpty(r.Knobs)}
}

// orEmpty returns an empty map for nil, so that the JSON has {} and not null.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// samples returns the metric's samples as measured, with empty runs and not raised to the floor.
func (e *entry) samples() *SideSamples {
	s := &SideSamples{}
	for i, into := range []*Samples{&s.Old, &s.New} {
		if m := e.sides[i]; m != nil {
			*into = m.Runs
		}
	}
	return s
}

// listTurns lists the processes of a stage in time order; order has true for a process of the new side.
func listTurns(order []bool, stage int, old, new *Result) []Turn {
	out := make([]Turn, 0, len(order))
	next := map[bool]int{}
	for _, isNew := range order {
		t := Turn{Stage: stage, Side: "old", Run: next[isNew]}
		r := old
		if isNew {
			t.Side, r = "new", new
		}
		if t.Run < len(r.RunInfo) {
			i := r.RunInfo[t.Run]
			t.StartS, t.Flagged, t.Codes = i.StartS, i.Flagged, slices.Clone(i.Codes)
		}
		next[isNew]++
		out = append(out, t)
	}
	return out
}
