// Package workloads defines the contract of a reference workload: presets, knobs, stages, and the session whose steps
// are measured. A workload takes a device and settings, and provides steps, checks against float64 and a description
// of the input. This package imports no concrete workload.
package workloads

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Probe brackets a step's stages. From Start to the step's last End it must not allocate, block or log.
type Probe interface {
	// Start marks the beginning of step i on the session's main stream.
	Start(step int) error
	// Begin opens a span of a stage (an index into Session.Stages). s is nil for work of the caller alone.
	Begin(stage int, s device.Stream) int
	// End closes the span that Begin returned.
	End(span int)
}

// Workload is a program that gpuprof can run: real arithmetic with a reference, named stages and knobs.
type Workload interface {
	Name() string
	Doc() string // one line
	// Presets are listed in the order of display; see Preset.DefaultOn.
	Presets() []Preset
	Knobs() []Knob
	// Stages are the stages of all settings in step order, without costs. A session has some or all of them.
	Stages() []gpuprof.Stage
	// Refuse returns an error that names a knob or combination that the device does not support, or nil.
	Refuse(device.Info, gpuprof.Settings) error
	Open(context.Context, device.Device, Config) (Session, error)
}

// Preset is a named set of knob values.
type Preset struct {
	Name string
	Doc  string
	Set  gpuprof.Settings // overrides the knobs' own defaults
	// DefaultOn lists the kinds of device ("host", "cuda") for which this preset is the default. If no preset lists a
	// kind, the first preset is its default.
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
	// Check compares every stage and whole steps with a float64 reference. It fills the outputs with NaN before, so that
	// missing writes show.
	Check(context.Context) ([]gpuprof.Check, error)
	// Step enqueues step i without allocating.
	Step(i int, p Probe) error
	// Cycle is the number of steps after which their work repeats: k for a session that synchronises every k steps,
	// otherwise 1.
	Cycle() int
	// Work is the useful work per step, such as 512 "probes".
	Work() (amount float64, unit string)
	// Input describes the data, such as structure and degree.
	Input() map[string]any
	Close() error
}

// Observer is a session that records its own figures while steps run, such as the length of a queue between its
// threads.
type Observer interface {
	// Observed is called once, after the last step. It returns figures for Run.Input and series for Run.Telemetry with
	// times counted from since.
	Observed(since time.Time) (map[string]any, map[string]gpuprof.Track)
}

// KnownAnswerer is a session that can also compare its simulation code with results of theory, such as queueing theory.
// These checks depend on the program alone, not on the settings or the device.
type KnownAnswerer interface {
	KnownAnswers(context.Context) ([]gpuprof.Check, error)
}

// CheckAll returns the checks of a session and, if it is a Theorist, of its known answers.
func CheckAll(ctx context.Context, s Session) ([]gpuprof.Check, error) {
	checks, err := s.Check(ctx)
	t, is := s.(KnownAnswerer)
	if err != nil || !is {
		return checks, err
	}
	known, err := t.KnownAnswers(ctx)
	return append(checks, known...), err
}

// Joiner is a session whose main stream does not wait for all work that its steps enqueue.
type Joiner interface {
	// Join makes the main stream wait for all enqueued work of the session, without allocating.
	Join() error
}

// Join makes the main stream of s wait for all work that its steps enqueued.
func Join(s Session) error {
	if j, ok := s.(Joiner); ok {
		return j.Join()
	}
	return nil
}

// Pauser is a session that works ahead of its caller.
type Pauser interface {
	// Pause stops the work that the session does for later steps, and drops its results. The session then does nothing
	// until the next step. lead is the number of steps after which it is as far ahead as before.
	Pause() (lead int, err error)
}

// VectorChecker is a workload that can compare its implementation with test vectors from another program.
type VectorChecker interface {
	// CheckVectors runs every case of a vectors file ({"cases":[…]}) in float32 on the device and in float64 by the
	// reference. A case that it cannot run gives an ErrInput with the case's index.
	CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error)
}
