package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/sweep"
)

// Encode writes a document as indented JSON, with its answer.
func Encode(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(WithAnswer(doc)); err != nil {
		return fmt.Errorf("encoding the result as JSON: %w", err)
	}
	return nil
}

// EncodeLine returns JSON on one line, with <, > and & unescaped.
func EncodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// EncodeRuns writes one run as an object. Several runs become a sweep: a document with an answer of its own, and each
// run with its answer in the member runs.
func EncodeRuns(w io.Writer, runs ...*gpuprof.Run) error {
	all := make([]any, len(runs))
	for i, r := range runs {
		all[i] = WithAnswer(r)
	}
	var v any = all
	switch {
	case len(runs) == 1:
		v = all[0]
	case len(runs) > 1:
		head, answer := NewHead(Sweep, runs[0].Tool), sweep.Answer(runs).Finite()
		head.Answered = &answer
		v = struct {
			gpuprof.Head
			Runs []any `json:"runs"`
		}{head, all}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding run: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Runs reads the output of EncodeRuns. name is the file name in errors, as in Decode.
func Runs(text []byte, name string) ([]*gpuprof.Run, error) {
	return decodeRuns(text, name, outside.NewRoom)
}

// OwnRuns is Runs without a memory limit, for a text that this program has just written.
func OwnRuns(text []byte, name string) ([]*gpuprof.Run, error) {
	return decodeRuns(text, name, outside.NoLimit)
}

func decodeRuns(text []byte, name string, newRoom func() *outside.Room) (_ []*gpuprof.Run, err error) {
	raws := []json.RawMessage{text}
	if HeadOf(text).Kind == Sweep {
		if _, err := Accept(text, name, Sweep); err != nil {
			return nil, err
		}
		if err := syntaxOf(text); err != nil {
			return nil, kindOf(Sweep).damagedError(name, err)
		}
	}
	if list := RunList(text); list != nil {
		room, list := newRoom(), NullNumbers(list)
		if raws, err = JSONList(list, room); err == nil {
			err = Fits(room, list, &[]gpuprof.Run{}) // all runs together
		}
		if err != nil {
			return nil, kindOf(Run).damagedError(name, err)
		}
	}
	if len(raws) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading run %s: the file holds no run", name).WithFix("write one with gpuprof run WORKLOAD -o %s", name)
	}
	out := make([]*gpuprof.Run, len(raws))
	for i, raw := range raws {
		if out[i], err = run(raw, name, newRoom()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RunList returns the JSON array of a sweep's runs, or a text that is an array itself; nil for other texts.
func RunList(text []byte) (list []byte) {
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) {
		return text
	}
	if HeadOf(text).Kind != Sweep {
		return nil
	}
	JSONMembers(text, func(key string, value []byte) bool {
		if key == "runs" {
			list = value
		}
		return list == nil
	})
	return list
}

func run(raw []byte, name string, room *outside.Room) (*gpuprof.Run, error) {
	r := &gpuprof.Run{}
	if err := decodeIn(room, raw, name, r, []gpuprof.DocumentKind{Run}); err != nil {
		return nil, err
	}
	if r.Workload == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading run %s: it names no workload and holds no run", name).WithFix("give %s", kindOf(Run).give)
	}
	if err := checkSigns(r); err != nil {
		return nil, kindOf(Run).damagedError(name, err)
	}
	addRoles(r)
	renewExposure(r)
	renewRequests(r)
	return r, nil
}

// addRoles sets the roles of stages in a run before schema 1.5, from the stage names of that time's workloads.
func addRoles(r *gpuprof.Run) {
	if slices.ContainsFunc(r.Stages, func(s gpuprof.StageResult) bool { return s.Role != "" }) {
		return
	}
	roles := map[string]gpuprof.StageRole{
		"h2d": gpuprof.RoleTransfer, "d2h": gpuprof.RoleResult, "sync": gpuprof.RoleSync, "backpressure": gpuprof.RoleSlot,
		"starved": gpuprof.RoleInput, "sample": gpuprof.RoleSample, "collate": gpuprof.RoleCollate, "stage": gpuprof.RoleStaging,
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		if role, named := roles[s.Name]; named && s.Parent == gpuprof.StageStep {
			s.Role = role.String()
		}
	}
}

// checkSigns returns an error that names a negative time, rate or count.
func checkSigns(r *gpuprof.Run) error {
	series := map[string]*gpuprof.Series{"step": r.Step, "bare_step": r.BareStep, "probed_step": r.ProbedStep, "energy_step_j": r.EnergyStep}
	if r.Throughput != nil {
		series["throughput.series"] = r.Throughput.Series
	}
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Parent == "step" {
			series[fmt.Sprintf("stages[%d] (%s).exposed", i, s.Name)] = s.Exposed
		}
	}
	for _, field := range slices.Sorted(maps.Keys(series)) {
		if series[field] == nil {
			continue
		}
		for p, samples := range series[field].Runs {
			for i, v := range samples {
				if v < 0 {
					return fmt.Errorf("%s.runs[%d][%d] is %g, below 0", field, p, i, v)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		if v := r.Counters[name]; v < 0 {
			return fmt.Errorf("counters.%s is %g, below 0", name, v)
		}
	}
	return nil
}
