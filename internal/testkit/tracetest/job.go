package tracetest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
)

// Job is a data-parallel training job whose ranks are simulated together. Forward and backward layers run on one
// stream, the all-reduces of the gradients on another. The optimizer waits for the last all-reduce, and the host waits
// for the device at the end of a step. Equal options give equal jobs, so two jobs with and without a slow rank differ
// in nothing else.
type Job struct {
	Ranks, Steps    int
	Layers, Buckets int
	Seed            uint64
	LayerNS         int64   // duration of a layer's forward; its backward takes twice as long
	ReduceNS        int64   // duration of an all-reduce after the last rank has arrived
	Noise           float64 // relative standard deviation of a kernel's duration
	EndJitterNS     int64   // largest difference between the times at which ranks leave a collective
	// Slow is the factor by which all kernels of a rank are longer. Late is the time for which a rank's host pauses
	// before each step, ns. Wander is a pause of a different rank in each step, ns.
	Slow   map[int]float64
	Late   map[int]int64
	Wander int64
	// Once is the time for which a rank's host pauses before the fourth step only, ns.
	Once map[int]int64
	// Longer is the factor by which the kernels of the second half of the ranks are longer; 0: none. These ranks also
	// run the kernels of a different last layer.
	Longer float64
	// Silent leaves out the arguments with which PyTorch describes collectives.
	Silent bool
	// Offset is the time by which the clock of a rank is ahead, ns.
	Offset map[int]int64
}

const (
	jobLaunch  = 6_000 // time between two launches of the host, ns
	jobLatency = 4_000 // time from a launch to the start of its kernel, ns
)

// jobKernel is a kernel of one rank.
type jobKernel struct {
	name          string
	launch        int64
	from, to      int64
	stream        int64
	elements, seq int64 // element count and number of a collective; 0 for other kernels
}

// jobRank is the state of one rank.
type jobRank struct {
	host, compute, comm int64 // times at which the host and the two streams become free, ns
	kernels             []jobKernel
	steps               [][2]int64 // start and end of each step on the host, ns
	syncs               [][2]int64
	rng                 *rand.Rand
}

// Simulation is the result of a simulated job.
type Simulation struct {
	job   Job
	ranks []*jobRank
	StepS float64 // mean step time without the first step, s
}

// Run simulates the job.
func (j Job) Run() *Simulation {
	s := &Simulation{job: j}
	for r := range j.Ranks {
		s.ranks = append(s.ranks, &jobRank{rng: rand.New(rand.NewPCG(j.Seed, uint64(r)))})
	}
	shared := rand.New(rand.NewPCG(j.Seed, 1<<40))
	first := int64(0)
	for n := range j.Steps {
		s.step(n, shared)
		if n == 0 {
			first = s.latest()
		}
	}
	s.StepS = float64(s.latest()-first) * 1e-9 / float64(max(j.Steps-1, 1))
	return s
}

func (s *Simulation) latest() int64 {
	var end int64
	for _, r := range s.ranks {
		end = max(end, r.host)
	}
	return end
}

// step simulates step n of all ranks, which wait for each other in the collectives.
func (s *Simulation) step(n int, shared *rand.Rand) {
	j := &s.job
	for i, r := range s.ranks {
		r.steps = append(r.steps, [2]int64{r.host, 0})
		r.host += 20_000 + j.Late[i]
		if n == 3 {
			r.host += j.Once[i]
		}
		if n%j.Ranks == i {
			r.host += j.Wander
		}
		for range j.Layers {
			r.work("ampere_sgemm_128x64_tn", s.takes(i, 1))
		}
	}
	per := max(j.Layers/j.Buckets, 1)
	for b := range j.Buckets {
		starts := make([]int64, j.Ranks)
		last := int64(0)
		for i, r := range s.ranks {
			for range per {
				r.work("ampere_sgemm_128x64_nt", s.takes(i, 2))
			}
			if j.Longer > 0 && 2*i >= j.Ranks {
				r.work("last_layer_gemm", s.takes(i, 1))
			}
			starts[i] = max(r.host+jobLatency, r.compute, r.comm)
			last = max(last, starts[i])
		}
		end := last + int64(float64(j.ReduceNS)*(1+0.02*shared.Float64()))
		for i, r := range s.ranks {
			left := end
			if j.EndJitterNS > 0 {
				left += r.rng.Int64N(j.EndJitterNS)
			}
			r.kernels = append(r.kernels, jobKernel{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", r.host, starts[i], left, 20, int64(1+b) << 20, int64(n*j.Buckets + b)})
			r.comm, r.host = left, r.host+jobLaunch
		}
	}
	for i, r := range s.ranks {
		r.compute = max(r.compute, r.comm)
		r.work("multi_tensor_apply_kernel", s.takes(i, 0.5))
		begin := r.host
		r.host = max(r.host, r.compute) + 5_000
		r.syncs = append(r.syncs, [2]int64{begin, r.host})
		r.steps[n][1] = r.host + 1_000
		r.host += 2_000
	}
}

// takes draws the duration of a kernel on a rank, ns; layers is its work in units of LayerNS.
func (s *Simulation) takes(rank int, layers float64) int64 {
	j := &s.job
	factor := 1.0
	if f := j.Slow[rank]; f > 0 {
		factor = f
	}
	if j.Longer > 0 && 2*rank >= j.Ranks {
		factor *= j.Longer
	}
	noise := 1 + j.Noise*s.ranks[rank].rng.NormFloat64()
	return max(int64(float64(j.LayerNS)*layers*factor*max(noise, 0.2)), 1000)
}

// work launches a kernel of duration takes, ns, on the compute stream.
func (r *jobRank) work(name string, takes int64) {
	from := max(r.host+jobLatency, r.compute)
	r.kernels = append(r.kernels, jobKernel{name: name, launch: r.host, from: from, to: from + takes, stream: 7})
	r.compute = from + takes
	r.host += jobLaunch
}

// Write writes the trace of a rank, as PyTorch's profiler would have recorded it.
func (s *Simulation) Write(w io.Writer, rank int) error {
	r, base := s.ranks[rank], 1_700_000_000_000_000_000+s.job.Offset[rank]
	us := func(ns int64) json.Number { return json.Number(fmt.Sprintf("%d.%03d", (base+ns)/1000, (base+ns)%1000)) }
	length := func(ns int64) json.Number { return json.Number(fmt.Sprintf("%d.%03d", ns/1000, ns%1000)) }
	var events []any
	host := func(cat, name string, from, to int64, args map[string]any) {
		events = append(events, map[string]any{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": us(from), "dur": length(to - from), "args": args})
	}
	for n, span := range r.steps {
		host("user_annotation", fmt.Sprint("ProfilerStep#", n+10), span[0], span[1], map[string]any{})
		host("cuda_runtime", "cudaDeviceSynchronize", r.syncs[n][0], r.syncs[n][1], map[string]any{"correlation": 1_000_000 + n})
	}
	for n, k := range r.kernels {
		host("cuda_runtime", "cudaLaunchKernel", k.launch, k.launch+3000, map[string]any{"correlation": n + 1})
		args := map[string]any{"device": 0, "stream": k.stream, "correlation": n + 1, "grid": []int{108, 1, 1}, "block": []int{256, 1, 1}}
		if k.elements > 0 && !s.job.Silent {
			args["Collective name"], args["In msg nelems"], args["Out msg nelems"], args["dtype"] = "allreduce", k.elements, k.elements, "Float"
			args["Group size"], args["Process Group Name"], args["Process Group Ranks"] = s.job.Ranks, "0", "[0, 1, 2, ...]"
		}
		events = append(events, map[string]any{"ph": "X", "cat": "kernel", "name": k.name, "pid": 0, "tid": k.stream, "ts": us(k.from), "dur": length(k.to - k.from), "args": args})
	}
	doc := map[string]any{"schemaVersion": 1, "distributedInfo": map[string]any{"backend": "nccl", "rank": rank, "world_size": s.job.Ranks},
		"deviceProperties": []any{map[string]any{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108}}, "traceEvents": events}
	return json.NewEncoder(w).Encode(doc)
}
