// Package workloadtest holds what the tests of every workload need: devices that the test closes, and settings
// written as on the command line.
package workloadtest

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// Host opens the host device for the duration of the test. Unless the options set other values, it measures memory
// rates in buffers of 1 MiB, and each rate only twice, because no test of a workload needs accurate rates.
func Host(t testing.TB, o host.Options) *host.Device {
	t.Helper()
	if o.LargestCopy == 0 {
		o.LargestCopy = 1 << 20
	}
	if o.CeilingTries == 0 {
		o.CeilingTries = 2
	}
	d, err := host.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return Closing(t, d)
}

// SmallCache is the host device with a reported cache that a few batches fill. A session generates enough batches to
// fill the cache, and a machine's own cache would need hundreds or thousands of the smallest ones.
type SmallCache struct{ *host.Device }

// Info implements device.Device.
func (d SmallCache) Info() device.Info {
	i := d.Device.Info()
	i.CacheBytes = 1 << 20
	return i
}

// Simulated opens the simulated driver, with its cuBLAS and cuDNN if libraries is set, once per test. At the end the
// test fails if anything was left allocated, used wrongly or used without order. needs names libraries that must have
// been found: "cublas", "cudnn".
func Simulated(t *testing.T, libraries bool, needs ...string) *cuda.Device {
	t.Helper()
	lib := sim.Library(t)
	folder := t.TempDir() // empty
	if libraries {
		folder = sim.Libraries(lib)
	}
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", folder)
	sim.Configure(t, lib, "order=shuffle:7")
	t.Cleanup(func() { sim.Check(t, lib) })
	d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: true})
	if err != nil {
		t.Fatal(err)
	}
	Closing(t, d)
	if libraries {
		found := d.Libraries()
		for _, n := range needs {
			if found[n] == "" {
				t.Fatalf("the simulated %s was not found among %v", n, found)
			}
		}
	}
	return d
}

// Closing makes the test close a device or a session at its end.
func Closing[C io.Closer](t testing.TB, c C) C {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Config returns a workload's configuration from "knob=value" texts, in mode steady.
func Config(t testing.TB, w workloads.Workload, preset string, set ...string) workloads.Config {
	t.Helper()
	s := gpuprof.Settings{}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		s[k] = v
	}
	knobs, err := workloads.Resolve(w, preset, s)
	if err != nil {
		t.Fatal(err)
	}
	return workloads.Config{Preset: preset, Knobs: knobs, Seed: 1, Mode: gpuprof.Steady}
}

// Passes runs the checks of a session and requires that each passes.
func Passes(t testing.TB, s workloads.Session) []gpuprof.Check {
	t.Helper()
	checks, err := s.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !c.Pass {
			t.Errorf("%s: relative error %.3g over %.3g", c.Stage, float64(c.RelativeError), c.Tolerance)
		}
	}
	return checks
}

// PassesWhole is Passes, and it also requires a check of every stage that is not a wait.
func PassesWhole(t testing.TB, s workloads.Session) []gpuprof.Check {
	t.Helper()
	checks := Passes(t, s)
	for _, st := range s.Stages() {
		if st.Kind != gpuprof.WaitStage && !slices.ContainsFunc(checks, func(c gpuprof.Check) bool { return c.Stage == st.Name }) {
			t.Errorf("stage %s was not checked", st.Name)
		}
	}
	return checks
}

// Fails requires that one check of the session fails in each of the stages.
func Fails(t testing.TB, s workloads.Session, stages ...string) {
	t.Helper()
	checks, err := s.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages {
		i := slices.IndexFunc(checks, func(c gpuprof.Check) bool { return c.Stage == stage })
		if i < 0 || checks[i].Pass {
			t.Errorf("stage %s passed: %+v", stage, checks)
		}
	}
}

// Refused requires that open fails before the device allocates anything, with an error of the given kind whose text
// contains all words.
func Refused(t testing.TB, d device.Device, kind error, words []string, open func() error) {
	t.Helper()
	before := d.Memory().Peak
	err := open()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
	if now := d.Memory().Peak; now != before {
		t.Errorf("memory was allocated before the refusal: peak %d", now)
	}
}

// ReadsKnobs checks the fields that workloads.Read sets in T: each has the tag of a knob of w that fits its type, and
// each knob of w has a field. Only a struct that workloads share, of another package, may have knobs and single values
// that w lacks.
func ReadsKnobs[T any](t testing.TB, w workloads.Workload) {
	t.Helper()
	read := readKnobs(t, w, reflect.TypeFor[T]())
	for _, k := range w.Knobs() {
		if !slices.Contains(read, k.Name) {
			t.Errorf("knob %s: no field has its tag", k.Name)
		}
	}
}

// readKnobs checks the fields of a struct, and of those embedded in it, and returns the names of their knobs.
func readKnobs(t testing.TB, w workloads.Workload, fields reflect.Type) (read []string) {
	t.Helper()
	own := fields.Name() == "" || fields.PkgPath() == reflect.TypeOf(w).PkgPath()
	for i := range fields.NumField() {
		f := fields.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			read = append(read, readKnobs(t, w, f.Type)...)
		}
		name, value, only := strings.Cut(f.Tag.Get("knob"), "=")
		if name == "" {
			continue
		}
		k, ok := workloads.FindKnob(w, name)
		switch {
		case ok && !holdsKnob(f.Type.Kind(), k, value, only) && (own || !only):
			t.Errorf("field %s: it does not hold the values %q and %q of knob %s", f.Name, k.Default, k.Values, name)
		case !ok && own:
			t.Errorf("field %s: no knob %q", f.Name, name)
		}
		read = append(read, name)
	}
	return read
}

// holdsKnob reports whether a field can hold a knob's values; a bool for one value only is true for that value.
func holdsKnob(kind reflect.Kind, k workloads.Knob, value string, only bool) bool {
	word := k.Parse != nil && slices.Contains(k.Values, k.Default)
	switch kind {
	case reflect.Bool:
		return only && slices.Contains(k.Values, value) || slices.Equal(slices.Sorted(slices.Values(k.Values)), []string{"off", "on"})
	case reflect.Int:
		_, err := strconv.Atoi(strings.TrimPrefix(k.Default, "every:"))
		return !only && (err == nil || word)
	case reflect.Float64:
		_, err := strconv.ParseFloat(k.Default, 64)
		return !only && (err == nil || word)
	}
	return kind == reflect.String && !only
}
