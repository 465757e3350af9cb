package serving

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
)

// network is what answers a batch: a residual network (residual.go), or nothing but its time
// (synthetic.go). One goroutine calls it, like the device.
type network interface {
	// requestBytes are those of a request as the device gets it, answerBytes those of its
	// answer.
	requestBytes() int
	answerBytes() int
	// requests and answers are a slot's device memory.
	requests(slot int) device.Buffer
	answers(slot int) device.Buffer
	// prepares says that the host prepares requests, in a stage of its own.
	prepares() bool
	// fill writes request id as the device gets it.
	fill(dst []byte, id int64)
	// prepare enqueues the preparing of a batch of requests on the device, nothing where the
	// host prepares; run enqueues their answers. stage is the probe's.
	prepare(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	run(on device.Stream, slot, batch, stage int, p workloads.Probe) error
	// warm runs it as a service does before its first request, and learns there what answers
	// are compared with.
	warm(ctx context.Context, d device.Device, s device.Stream) error
	// loading is the time that its kernels and libraries took to load.
	loading() time.Duration
	// right says that an answer is that of request id.
	right(answer []byte, id int64) bool
	// describe fills in the stages prepare and forward for a batch.
	describe(all []gpuprof.Stage, batch int)
	// check compares the answers to requests ids with the reference, and the parts of the
	// network in a slot, whose batch it replaces.
	check(ctx context.Context, s device.Stream, slot int, ids []int64, answers []byte) ([]gpuprof.Check, error)
	// model is what callers from outside see, take writes a request of theirs as the device
	// gets it, and sound says whether an answer to it can be one, by what is seen at a glance.
	model() kserve.Model
	take(dst, request []byte)
	sound(request, answer []byte) bool
	// recompute compares such an answer with the network in float64: ||out-ref|| / ||ref||,
	// and how large it may be.
	recompute(request, answer []byte) (e, tolerance float64)
	facts() map[string]any
	close() error
}
