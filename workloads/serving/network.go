package serving

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
)

// network computes the answers of a batch: a residual network (residual.go), or a kernel that only takes its time
// (synthetic.go). One goroutine calls it, like the device.
type network interface {
	// requestBytes is the size of a request on the device, answerBytes the size of its answer.
	requestBytes() int
	answerBytes() int
	// inputBuffer and outputBuffer return a slot's device memory of requests and of answers.
	inputBuffer(slot int) device.Buffer
	outputBuffer(slot int) device.Buffer
	// hostPrepares reports whether the host prepares requests, in a stage of its own.
	hostPrepares() bool
	// writeRequest writes request id in the device's format.
	writeRequest(dst []byte, id int64)
	// prepareBatch enqueues the preparation of a batch of requests on the device, nothing where the host prepares; run
	// enqueues their answers. stage is the probe's.
	prepareBatch(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	run(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	// warmUp runs the network as a service does before its first request, and computes the answers that later ones are
	// compared with.
	warmUp(ctx context.Context, d device.Device, s device.Stream) error
	// loadTime returns the time that its kernels and libraries took to load.
	loadTime() time.Duration
	// isRight reports whether an answer belongs to request id.
	isRight(answer []byte, id int64) bool
	// describeStages fills in the stages prepare and forward for a batch.
	describeStages(all []gpuprof.Stage, batch int)
	// check compares the answers to requests ids with the reference, and the parts of the
	// network in a slot, whose batch it replaces.
	check(ctx context.Context, s device.Stream, slot int, ids []int64, answers []byte) ([]gpuprof.Check, error)
	// servedModel describes the network to callers from outside. decodeRequest writes such a caller's request in the
	// device's format, and isPlausible does a cheap check of an answer to it.
	servedModel() kserve.Model
	decodeRequest(dst, request []byte)
	isPlausible(request, answer []byte) bool
	// recompute compares such an answer with the network in float64: ||out-ref|| / ||ref||,
	// and how large it may be.
	recompute(request, answer []byte) (e, tolerance float64)
	facts() map[string]any
	close() error
}
