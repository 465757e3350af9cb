// Package workloads is the contract of a reference workload: presets, knobs, stages and the session whose steps are
// measured. A workload takes a device and settings, and provides steps, checks against float64 and a description of
// the input. Every folder below that measures or is measured uses it. It imports packages gpuprof and device only, and
// no concrete workload.
package workloads

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Probe brackets a step's stages. Implementations must not allocate, block or
// log between Start and the step's last End.
type Probe interface {
	// Start marks the beginning of step i on the session's main stream.
	Start(step int) error
	// Begin opens a span of stage (an index into Session.Stages). s is nil
	// for work of the caller alone.
	Begin(stage int, s device.Stream) int
	// End closes the span Begin returned.
	End(span int)
}

// Workload is a program gpuprof can run: real arithmetic, checked against a
// reference, with named stages and knobs.
type Workload interface {
	Name() string
	Doc() string // one line
	// Presets are listed in this order; see Preset.DefaultOn.
	Presets() []Preset
	Knobs() []Knob
	// Stages are the stages of every setting, in the order of the step: names, kinds and roles, without costs. A
	// session has some or all of them.
	Stages() []gpuprof.Stage
	// Refuse names the knob or combination this device cannot honour.
	Refuse(device.Info, gpuprof.Settings) error
	Open(context.Context, device.Device, Config) (Session, error)
}

// Preset is a named set of knob values.
type Preset struct {
	Name string
	Doc  string
	Set  gpuprof.Settings // over the knobs' own defaults
	// DefaultOn lists the kinds of device ("host", "cuda") for which this preset is the default. A device that no
	// preset names gets the first preset.
	DefaultOn []string
}

// Config holds the settings of a session.
type Config struct {
	Preset string
	Knobs  gpuprof.Settings // complete and canonical: see Resolve
	Seed   uint64
	Mode   gpuprof.Mode
}

// Session is a workload with its buffers allocated and its kernels loaded.
type Session interface {
	Stages() []gpuprof.Stage
	Main() device.Stream
	// Depth is the number of steps that can be in flight before the caller waits.
	Depth() int
	// Check compares every stage with a float64 reference, on poisoned outputs, and whole
	// steps (WholeStep) from their inputs.
	Check(context.Context) ([]gpuprof.Check, error)
	// Step enqueues step i. It allocates nothing.
	Step(i int, p Probe) error
	// Cycle is the period in steps of the pattern of counters (k for a session that synchronises every k steps, else
	// 1).
	Cycle() int
	// Work is the amount of useful work in one step, e.g. 512 "probes".
	Work() (amount float64, unit string)
	// Input describes the data: structure, degree, …
	Input() map[string]any
	Close() error
}

// Observer is a session that records figures of its own while steps run, such as the length of a queue between its
// threads.
type Observer interface {
	// Observed is read once, after the last step: figures for Run.Input, and
	// series for Run.Telemetry with their times counted from since.
	Observed(since time.Time) (map[string]any, map[string]gpuprof.Track)
}

// Theorist is a session that also compares a model of itself with results of theory. These checks depend on the program
// alone: neither on a setting nor on the device.
type Theorist interface {
	KnownAnswers(context.Context) ([]gpuprof.Check, error)
}

// CheckAll returns the checks of a session, those of a Theorist included.
func CheckAll(ctx context.Context, s Session) ([]gpuprof.Check, error) {
	checks, err := s.Check(ctx)
	t, is := s.(Theorist)
	if err != nil || !is {
		return checks, err
	}
	known, err := t.KnownAnswers(ctx)
	return append(checks, known...), err
}

// Joiner is a session whose main stream does not wait for all that its steps enqueue.
type Joiner interface {
	// Join makes the main stream wait for all enqueued work of the session. It allocates nothing.
	Join() error
}

// Join makes the main stream of s wait for all that its steps enqueued.
func Join(s Session) error {
	if j, ok := s.(Joiner); ok {
		return j.Join()
	}
	return nil
}

// Pauser is a session that works ahead of its caller.
type Pauser interface {
	// Pause ends that work and drops its results, so that nothing of the session runs until the next step. lead is the
	// number of steps after which the session works fully ahead again.
	Pause() (lead int, err error)
}

// VectorChecker is a workload that can compare its implementation with
// vectors made by another program.
type VectorChecker interface {
	// CheckVectors runs every case of a vectors file ({"cases":[…]}) in
	// float32 on the device and in float64 through the reference. A case it
	// cannot run is ErrInput, naming its index.
	CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error)
}
