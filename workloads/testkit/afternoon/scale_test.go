package afternoon

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

var update = flag.Bool("update", false, "write the code into docs/workload.md again")

func TestRuns(t *testing.T) {
	for name, open := range map[string]func() device.Device{
		"host":      func() device.Device { return workloadtest.Host(t, host.Options{Threads: 2}) },
		"simulated": func() device.Device { return workloadtest.Simulated(t, true) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scaleWorkload{}.Open(context.Background(), open(), workloadtest.Config(t, scaleWorkload{}, "small", "count=1000"))
			if err != nil {
				t.Fatal(err)
			}
			workloadtest.Closing(t, s)
			for i := range 3 {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
			workloadtest.Passes(t, s)
		})
	}
}

// The check fails for a kernel that multiplies by another factor.
func TestCheckFails(t *testing.T) {
	s, err := scaleWorkload{}.Open(context.Background(), workloadtest.Host(t, host.Options{Threads: 1}), workloadtest.Config(t, scaleWorkload{}, "small"))
	if err != nil {
		t.Fatal(err)
	}
	workloadtest.Closing(t, s)
	device.View[scaleView](&s.(*session).call.Args).factor.Set(2)
	workloadtest.Fails(t, s, "scale")
}

// The code of the guide is this package's.
func TestGuide(t *testing.T) {
	const guide, begin, end = "../../../docs/workload.md", "```go\n", "```\n"
	code, err := os.ReadFile("scale.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(code), "\n"); n > 120 {
		t.Errorf("the workload has %d lines, the guide promises 120", n)
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no block of Go code", guide)
	}
	want := head + begin + string(code) + end + tail
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s has other code than scale.go: run go test -update", guide)
	}
	if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
