package doctor

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/baselines"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/workloads/devicebench"
)

// Machine gives doctor the driver, NVML and the kernel's log; main fills it.
type Machine struct {
	Examine     func() []gpuprof.CheckLine                   // all but the devices
	ExamineGPUs func() []gpuprof.CheckLine                   // the CUDA device, its libraries, telemetry and each GPU
	Faults      func(context.Context) ([]health.Card, error) // what NVML and the kernel's log report of each GPU
	KernelLog   func([]health.Card) []health.Card            // adds what the kernel's log reports
	GPUs        func() (GPUs, error)                         // opened for a measurement; never nil, to be closed
}

// GPUs are the GPUs that CUDA and NVML show.
type GPUs interface {
	gpuNames
	// Target is the GPU at a position among Shown, ready to be measured.
	Target(index int) (devicebench.Target, error)
	// Between measures the links between those at the positions, and a sum over all of them, bytes at a time.
	Between(ctx context.Context, here []int, bytes int) (links []health.Link, sum *health.AllReduce)
	// Accounts gives each card what the machine reports of its GPU; everyGPU adds cards of further faulty ones.
	Accounts(ctx context.Context, cards []health.Card, everyGPU bool) []health.Card
	Close() error
}

// gpuNames finds GPUs by their names.
type gpuNames interface {
	// Shown lists the GPUs that CUDA shows this process, Hidden the UUIDs of those that CUDA_VISIBLE_DEVICES could
	// add.
	Shown() []GPUName
	Hidden() []string
	// Elsewhere finds a name that CUDA does not have, as a UUID.
	Elsewhere(name string) (uuid string, err error)
}

// GPUName is a GPU that this process sees.
type GPUName struct {
	Index      int // CUDA's
	UUID, Name string
}

// linkBytes is the size of a copy between GPUs, and of an array that is summed over them.
const linkBytes = 256 << 20

// FailedCard is the card of a device, or of AllGPUs, that gave no answer.
func FailedCard(device string, err error) []health.Card {
	return []health.Card{{Device: device, Error: cli.Sentence(err), Err: err}}
}

// failedGPU is the card of the GPU of a UUID.
func failedGPU(uuid string, err error) []health.Card {
	cards := FailedCard(uuid, err)
	cards[0].UUID = uuid
	return cards
}

// ShippedRanges returns the rates of healthy devices, by model.
func ShippedRanges() (*health.Ranges, error) {
	return health.ParseRanges(baselines.Ranges(), "baselines/ranges.json")
}
