// Package serving is the reference workload of inference services: requests arrive one by one, a bounded queue holds
// them, batches are made and run, and each caller gets an answer. Two measurements are separate: the capacity of the
// service, whose steps take batches from a queue that is never empty, and the callers' latency at a rate.
//
// The nouns of the code: a slot holds one batch in flight, with its memory on host and device. A load is a run of
// requests after the measured steps; its plan holds rate, lengths and arrival times, its account the counts and
// latencies. A front answers callers from outside the program. Alone means in a batch of one.
//
// Read top down: knobs.go, session.go opens, step.go runs a batch, network.go is the interface of the network
// (residual.go, synthetic.go), serve.go serves a load, check.go compares with the reference. Package traffic is the
// service without the network, package resnet the network without the service.
package serving

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
)

// Workload is the serving workload; it has no state.
type Workload struct{}

// New returns the workload.
func New() workloads.Workload { return Workload{} }

// Name implements workloads.Workload.
func (Workload) Name() string { return "serving" }

// Doc implements workloads.Workload.
func (Workload) Doc() string {
	return "inference service: requests queued, batched, run and answered; latency percentiles at a given rate"
}

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	return []workloads.Preset{
		{Name: "small", Doc: "residual network of 8 layers on 16x16 crops, 0.8 million multiply-adds per image", Set: shapeOf(resnet.Small()), DefaultOn: []string{"host"}},
		{Name: "cifar", Doc: "ResNet-20 on 32x32 crops, 41 million multiply-adds per image", Set: shapeOf(resnet.Cifar())},
		{Name: "rxvision", Doc: "ResNet-18 on 224x224 crops, 1.8 billion multiply-adds per image", Set: shapeOf(resnet.RxVision()), DefaultOn: []string{"cuda"}},
		{Name: "synthetic", Doc: "no network: a batch of b requests takes tau + alpha b seconds, to measure the queue and the batcher alone", Set: gpuprof.Settings{"network": networkSynthetic}},
	}
}

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage { return allStages() }

// Open implements workloads.Workload.
func (Workload) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	s, err := open(ctx, d, c)
	if err != nil { // a nil *session would be a non-nil Session
		return nil, err
	}
	return s, nil
}

// CheckVectors implements workloads.VectorChecker.
func (Workload) CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error) {
	return resnet.CheckVectors(ctx, d, file, name)
}
