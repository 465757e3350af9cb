package health

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// Link is the connection from one GPU's memory to another's, both named as in Report.Devices.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Direct reports a copy over NVLink or PCIe; otherwise the driver copies through host memory.
	Direct    bool           `json:"direct"`
	BytesPerS gpuprof.Number `json:"bytes_per_s"` // null if not measured
	Why       string         `json:"why,omitempty"`
}

// AllReduce is the measured speed of an NCCL sum over all GPUs of a report.
type AllReduce struct {
	Library string         `json:"library,omitempty"` // "nccl 2.27.3"
	GPUs    int            `json:"gpus"`
	Bytes   int            `json:"bytes"`           // size of the array on each GPU
	TookS   gpuprof.Number `json:"took_s"`          // time of one sum
	BusPerS gpuprof.Number `json:"bus_bytes_per_s"` // 2 (n - 1)/n of Bytes over TookS
	Why     string         `json:"why,omitempty"`   // why the speed was not measured
}

// Links measures every ordered pair of devices. A failed pair has an error and does not stop the others.
func Links(names []string, measure func(from, to int) (direct bool, bytesPerS float64, err error)) []Link {
	var out []Link
	for i, from := range names {
		for j, to := range names {
			if i == j {
				continue
			}
			l := Link{From: from, To: to, BytesPerS: gpuprof.Number(math.NaN())}
			direct, rate, err := measure(i, j)
			if l.Direct = direct; err != nil {
				l.Why = err.Error()
			} else {
				l.BytesPerS = gpuprof.Number(rate)
			}
			out = append(out, l)
		}
	}
	return out
}
