package doctor

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/baselines"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/workloads/devicebench"
)

// Machine gives doctor access to the driver, NVML and the kernel log. Main sets it.
type Machine struct {
	Examine     func() []gpuprof.CheckLine                   // everything except the devices
	ExamineGPUs func() []gpuprof.CheckLine                   // CUDA devices and libraries, telemetry, and each GPU
	Faults      func(context.Context) ([]health.Card, error) // fault reports of NVML and the kernel log, per GPU
	KernelLog   func([]health.Card) []health.Card            // adds the fault reports of the kernel log to cards
	GPUs        func() (GPUs, error)                         // opens the GPUs; never nil, the caller closes it
}

// GPUs gives access to the GPUs that CUDA and NVML list.
type GPUs interface {
	gpuNames
	// Target returns the GPU at a position in Shown, ready to be measured.
	Target(index int) (devicebench.Target, error)
	// Between measures the links between the GPUs at the positions here in Shown, and an all-reduce over these GPUs.
	// bytes is the size of each copy and of the array.
	Between(ctx context.Context, here []int, bytes int) (links []health.Link, sum *health.AllReduce)
	// Accounts adds the machine's fault reports to the GPUs' cards. If everyGPU is set, it adds cards of further faulty
	// GPUs.
	Accounts(ctx context.Context, cards []health.Card, everyGPU bool) []health.Card
	Close() error
}

// gpuNames finds GPUs by their names.
type gpuNames interface {
	// Shown lists the GPUs that CUDA shows this process. Hidden lists the UUIDs of the GPUs that CUDA would show a
	// process with another CUDA_VISIBLE_DEVICES.
	Shown() []GPUName
	Hidden() []string
	// Elsewhere returns the UUID of a GPU whose name Shown does not list.
	Elsewhere(name string) (uuid string, err error)
}

// GPUName is a GPU that this process sees.
type GPUName struct {
	Index      int // CUDA's index
	UUID, Name string
}

// linkBytes is the size, in bytes, of a copy between GPUs and of the array of their all-reduce.
const linkBytes = 256 << 20

// FailedCard returns one card, for a device or health.AllGPUs, that could not be examined.
func FailedCard(device string, err error) []health.Card {
	return []health.Card{{Device: device, Error: cli.Sentence(err), Err: err}}
}

// failedGPU returns one card, for a GPU named by its UUID, that could not be measured.
func failedGPU(uuid string, err error) []health.Card {
	cards := FailedCard(uuid, err)
	cards[0].UUID = uuid
	return cards
}

// ShippedRanges returns the ranges of figures of healthy GPUs, by model, that are built into gpuprof.
func ShippedRanges() (*health.Ranges, error) {
	return health.ParseRanges(baselines.Ranges(), "baselines/ranges.json")
}
