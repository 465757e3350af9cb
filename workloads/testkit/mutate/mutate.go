package mutate

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

type kind int

const (
	deleted kind = iota
	doubled
	exchanged // with the next launch of its stream
	rebound   // one buffer argument is replaced by another buffer of the same size
)

// mutation is a change of one launch of every step.
type mutation struct {
	kind kind
	args []*device.Args // all different arguments with which steps make the launch
	at   int            // index of the rebound argument; to is its new buffer
	to   device.Buffer

	launch int
	kernel string
}

func (m *mutation) String() string {
	switch m.kind {
	case deleted:
		return "left out"
	case doubled:
		return "launched twice"
	case exchanged:
		return "exchanged with the next"
	}
	return fmt.Sprintf("another buffer for argument %d", m.at)
}

// Mutation names a change of a step, with what came of it.
type Mutation struct {
	Launch int    // position in the step
	Kernel string // of the launch
	Change string
	// FoundBy are the stages whose check failed, or the error of the check. It is empty for a change that no check
	// found.
	FoundBy string
	// Error is the largest change of a result over four steps, relative to the largest value of its buffer; 0 if every
	// result is equal bit by bit, +Inf if a value became NaN or infinite. It is known only where FoundBy is empty.
	Error float64
}

// Options of Run.
type Options struct {
	// Every selects every n-th mutation; 0 selects all.
	Every int
	// Rounding is the largest Error that rounding explains.
	Rounding float64
}

const (
	mostSteps     = 64 // until every launch was seen
	comparedSteps = 4
	cacheBytes    = 1 << 20 // sessions rotate over a few batches
)

// Open makes a session on a device.
type Open func(device.Device) (workloads.Session, error)

// Run makes every mutation of the launches of a step, each in a session of its own, and reports an error for each that
// changes results and passes every check. It returns all of them.
func Run(t *testing.T, o Options, open Open) []Mutation {
	t.Helper()
	base := start(t, open)
	defer base.close()
	all := mutations(base.plan())
	before, err := base.run()
	if err != nil {
		t.Fatal(err)
	}
	if by := base.foundBy(); by != "" {
		t.Fatalf("the unchanged step fails: %s", by)
	}
	var out []Mutation
	for i := 0; i < len(all); i += max(o.Every, 1) {
		got := try(t, open, i, before)
		out = append(out, got)
		if got.FoundBy == "" && got.Error > o.Rounding {
			t.Errorf("launch %d, %s, %s: results change by %.3g and every check passes", got.Launch, got.Kernel, got.Change, got.Error)
		}
	}
	t.Log(count(out, o.Rounding))
	for _, m := range out {
		if m.FoundBy == "" {
			t.Logf("not found: launch %d, %s, %s: results change by %.3g", m.Launch, m.Kernel, m.Change, m.Error)
		}
	}
	return out
}

// try makes mutation i of a new session.
func try(t *testing.T, open Open, i int, before [][]byte) Mutation {
	t.Helper()
	checked := start(t, open)
	defer checked.close()
	m := mutations(checked.plan())[i]
	checked.d.change = &m
	out := Mutation{Launch: m.launch, Kernel: m.kernel, Change: m.String(), FoundBy: checked.foundBy()}
	if out.FoundBy != "" {
		return out
	}
	compared := start(t, open)
	defer compared.close()
	m = mutations(compared.plan())[i]
	compared.d.change = &m
	after, err := compared.run()
	if err != nil {
		out.Error = math.Inf(1)
		return out
	}
	out.Error = apart(before, after)
	return out
}

// foundBy returns the stages whose check fails, or the error of the check.
func (o *opened) foundBy() string {
	checks, err := o.s.Check(context.Background())
	if err != nil {
		return "error: " + err.Error()
	}
	var stages []string
	for _, c := range checks {
		if !c.Pass {
			stages = append(stages, c.Stage)
		}
	}
	return strings.Join(stages, ", ")
}

// apart returns the largest difference of two sets of results as float32, relative to the largest value of its buffer.
func apart(before, after [][]byte) float64 {
	if len(before) != len(after) {
		return math.Inf(1)
	}
	worst := 0.0
	for k := range before {
		if bytes.Equal(before[k], after[k]) {
			continue
		}
		var largest, difference float64
		for i := 0; i+4 <= len(before[k]); i += 4 {
			a, b := float32At(before[k], i), float32At(after[k], i)
			if largest = max(largest, math.Abs(a)); math.Float64bits(a) != math.Float64bits(b) {
				difference = max(difference, math.Abs(a-b)) // NaN if either is
			}
		}
		if !(difference <= worst*largest) {
			worst = difference / largest
		}
		if math.IsNaN(worst) {
			return math.Inf(1)
		}
	}
	return worst
}

func float32At(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
}

// opened is a session after its first steps.
type opened struct {
	d    *Device
	s    workloads.Session
	next int // step
}

// start opens a session and takes steps until three in a row have only launches that earlier steps had.
func start(t *testing.T, open Open) *opened {
	t.Helper()
	h, err := host.Open(host.Options{Threads: 1, LargestCopy: cacheBytes, CeilingTries: 2})
	if err != nil {
		t.Fatal(err)
	}
	d := Wrap(h, cacheBytes)
	s, err := open(d)
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{d: d, s: s}
	d.recording = true
	known, quiet := map[*device.Args]bool{}, 0
	for quiet < 3 {
		if o.next == mostSteps {
			t.Fatalf("after %d steps there are still new launches", mostSteps)
		}
		d.steps = append(d.steps, nil)
		if err := o.step(); err != nil {
			t.Fatal(err)
		}
		quiet++
		for _, l := range d.steps[len(d.steps)-1] {
			if !known[l.args] {
				known[l.args], quiet = true, 0
			}
		}
	}
	d.recording = false
	return o
}

// close closes the session and its device. It drops their errors, which the check has already reported.
func (o *opened) close() {
	_ = o.s.Close()
	_ = o.d.Close()
}

func (o *opened) step() error {
	if err := o.s.Step(o.next, loop.Silent{}); err != nil {
		return err
	}
	o.next++
	return o.s.Main().Sync()
}

// run takes steps and returns what each copied to the host. If no step copies anything, it returns the content of all
// buffers that the launches of a step have as arguments.
func (o *opened) run() ([][]byte, error) {
	var out [][]byte
	for range comparedSteps {
		if err := o.step(); err != nil {
			return nil, err
		}
		for _, b := range o.results() {
			out = append(out, slices.Clone(b.Bytes()))
		}
	}
	return out, nil
}

func (o *opened) results() []device.Buffer {
	if len(o.d.results) > 0 {
		return o.d.results
	}
	var out []device.Buffer
	for _, step := range o.d.steps {
		for _, l := range step {
			for _, i := range slices.Sorted(maps.Keys(l.bufs)) {
				if !slices.Contains(out, l.bufs[i]) {
					out = append(out, l.bufs[i])
				}
			}
		}
	}
	return out
}

// plan returns the launches of a step, each with its arguments in every step. Steps that launch different kernels have
// separate plans.
func (o *opened) plan() [][]operation {
	var plans [][]operation
	for _, step := range o.d.steps {
		i := slices.IndexFunc(plans, func(p []operation) bool {
			return slices.EqualFunc(p, step, func(a operation, b launched) bool { return a.kernel == b.kernel })
		})
		if i < 0 {
			i, plans = len(plans), append(plans, make([]operation, len(step)))
		}
		for k, l := range step {
			p := &plans[i][k]
			p.kernel, p.bufs = l.kernel, l.bufs
			if !slices.Contains(p.args, l.args) {
				p.args = append(p.args, l.args)
			}
		}
	}
	return plans
}

type operation struct {
	args   []*device.Args
	kernel *device.Kernel
	bufs   map[int]device.Buffer // by argument
}

// mutations lists every change of every launch of the plans, each launch only once even if several plans have it.
func mutations(plans [][]operation) []mutation {
	var out []mutation
	seen := map[*device.Args]bool{}
	for _, plan := range plans {
		var bufs []device.Buffer
		for _, o := range plan {
			for _, i := range slices.Sorted(maps.Keys(o.bufs)) {
				if !slices.Contains(bufs, o.bufs[i]) {
					bufs = append(bufs, o.bufs[i])
				}
			}
		}
		for k, o := range plan {
			if seen[o.args[0]] {
				continue
			}
			seen[o.args[0]] = true
			add := func(m mutation) {
				m.launch, m.kernel, m.args = k, o.kernel.Name, o.args
				out = append(out, m)
			}
			add(mutation{kind: deleted})
			add(mutation{kind: doubled})
			if k+1 < len(plan) {
				add(mutation{kind: exchanged})
			}
			for _, i := range slices.Sorted(maps.Keys(o.bufs)) {
				for _, b := range bufs {
					if b != o.bufs[i] && b.Len() == o.bufs[i].Len() {
						add(mutation{kind: rebound, at: i, to: b})
					}
				}
			}
		}
	}
	return out
}

// count returns how many mutations were found, change nothing, change results by rounding alone, or pass unseen.
func count(all []Mutation, rounding float64) string {
	var found, equal, rounded, unseen int
	for _, m := range all {
		switch {
		case m.FoundBy != "":
			found++
		case m.Error == 0:
			equal++
		case m.Error <= rounding:
			rounded++
		default:
			unseen++
		}
	}
	return fmt.Sprintf("%d mutations: %d found, %d change no bit, %d change by rounding, %d unseen", len(all), found, equal, rounded, unseen)
}
