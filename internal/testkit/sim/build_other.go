//go:build !linux

package sim

import "github.com/gpuprof/gpuprof"

var errNotHere = gpuprof.Errorf(nil, "building the simulated CUDA driver: it needs Linux").WithFix("run this test there")

type builder struct{}

func newBuilder(bool, []string) (*builder, error) { return nil, errNotHere }

func (*builder) build() (string, error) { return "", errNotHere }

func openControl(string) (*control, error) { return nil, errNotHere }
