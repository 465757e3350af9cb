package serving

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
)

// network computes the answers of a batch: a residual network (residual.go), or a kernel that only waits
// (synthetic.go). One goroutine at a time calls it.
type network interface {
	// requestBytes and answerBytes return the bytes of one request, and of one answer, on the device.
	requestBytes() int
	answerBytes() int
	// inputBuffer and outputBuffer return a slot's device memory for requests and for answers.
	inputBuffer(slot int) device.Buffer
	outputBuffer(slot int) device.Buffer
	// hostPrepares reports whether the host preprocesses requests, in a stage of its own.
	hostPrepares() bool
	// writeRequest writes request id in the device's format.
	writeRequest(dst []byte, id int64)
	// prepareBatch enqueues the device's preprocessing of a batch, if there is any. run enqueues the network.
	prepareBatch(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	run(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	// warmUp runs the network before the first request, and computes the expected answers for isRight.
	warmUp(ctx context.Context, d device.Device, s device.Stream) error
	// loadTime returns the time for loading kernels and libraries.
	loadTime() time.Duration
	// isRight reports whether an answer belongs to request id.
	isRight(answer []byte, id int64) bool
	// describeStages sets the work of the stages prepare and forward for a batch.
	describeStages(all []gpuprof.Stage, batch int)
	// check compares the batch's answers with the reference, then each part of the network. It overwrites the slot's
	// batch.
	check(ctx context.Context, s device.Stream, slot int, ids []int64, answers []byte) ([]gpuprof.Check, error)
	// servedModel describes the network to callers from outside the program. decodeRequest converts a caller's request to
	// the device's format. isPlausible checks a caller's answer cheaply.
	servedModel() kserve.Model
	decodeRequest(dst, request []byte)
	isPlausible(request, answer []byte) bool
	// recompute compares a caller's answer with float64. It returns e = ||out-ref|| / ||ref|| and the largest e that is
	// allowed.
	recompute(request, answer []byte) (e, tolerance float64)
	facts() map[string]any
	close() error
}
