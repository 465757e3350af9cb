// Package tracetest makes traces for tests and benchmarks: a training loop of any size as PyTorch's profiler would
// have recorded it. Equal options give equal traces on every machine.
package tracetest

import (
	"bufio"
	"io"
	"math/rand/v2"
)

// Options select the trace to write. The zero value gives three steps of 24 layers.
type Options struct {
	Bytes  int64 // write steps until the text is this long
	Steps  int   // write at least this many steps; 0 is 3
	Layers int   // layers of the model; 0 is 24
	Seed   uint64

	Rank, World int  // rank and number of ranks, written if World > 0
	Python      bool // Python frames around the operators
	Stacks      bool // call stacks in the operators' arguments
	Memory      bool // memory allocation events
	Old         bool // capitalised categories and whole microseconds, as releases before 1.12
	Array       bool // only the event array instead of the object that contains it
	Compact     bool // leave out most white space
}

// Stats counts what was written.
type Stats struct {
	Bytes                          int64
	Events                         int // all elements of the event array
	Steps, Ops, Annotations, Calls int
	Python, Memory                 int
	Kernels, Copies, Fills         int
	KernelNS, CopyNS               int64 // sums
	FirstNS, LastNS                int64 // start of the first step and end of the last device work
}

// Write writes a trace to w.
func Write(w io.Writer, o Options) (Stats, error) {
	if o.Steps <= 0 {
		o.Steps = 3
	}
	if o.Layers <= 0 {
		o.Layers = 24
	}
	g := &generator{
		o: o, out: bufio.NewWriterSize(w, 1<<18), rng: rand.New(rand.NewPCG(o.Seed, 0x9E3779B97F4A7C15)),
		now: 1_700_000_000_123_456_789, corr: 1000, ext: 1, seq: 1,
	}
	if o.Old {
		g.now -= g.now % 1000
	}
	g.pieces()
	g.head()
	for n := 0; n < o.Steps || g.written < o.Bytes; n++ {
		g.step(n)
		g.flush()
	}
	g.foot()
	if g.err == nil {
		g.err = g.out.Flush()
	}
	g.stats.Bytes = g.written
	return g.stats, g.err
}

const (
	process = 4242
	thread  = 4242
	worker  = 4300 // the autograd thread
	compute = 7    // the kernels' stream
	copying = 20   // the input copies' stream
)

// event is an event of the current step that is not yet written as JSON.
type event struct {
	kind   kind
	thread int64
	name   string
	ts     int64
	dur    int64
	corr   int64
	ext    int64
	seq    int64 // autograd sequence number; -1: none
	bytes  int64
	stream int64
	grid   int64
	stack  int // 1 + index in stacks; 0: none
}

type kind uint8

const (
	annotation kind = iota
	operator
	call
	python
	kernel
	memcpy
	memset
	memory
	kinds
)

type generator struct {
	o       Options
	out     *bufio.Writer
	rng     *rand.Rand
	err     error
	written int64
	stats   Stats
	buf     []byte
	p       [kinds]piece
	sep     string // before an element of the array

	events         []event
	now            int64 // host clock, ns
	busy           int64 // time until which the device works, ns
	corr, ext, seq int64
}

// span draws a duration around mean, ns; whole microseconds in old traces.
func (g *generator) span(mean int64) int64 {
	d := mean/2 + g.rng.Int64N(mean)
	if g.o.Old {
		d = max(1000, d-d%1000)
	}
	return d
}

func (g *generator) add(e event) int {
	g.events = append(g.events, e)
	return len(g.events) - 1
}

// begin adds an event of thread on that starts now, and returns its index; end sets its duration.
func (g *generator) begin(k kind, name string, on int64) int {
	e := event{kind: k, thread: on, name: name, ts: g.now, seq: -1}
	if k == operator || k == annotation {
		e.ext = g.ext
		g.ext++
	}
	g.now += g.span(1500)
	return g.add(e)
}

func (g *generator) end(i int) {
	g.now += g.span(1200)
	g.events[i].dur = g.now - g.events[i].ts
}

// launch adds an API call and the device work e that the call starts.
func (g *generator) launch(api string, on int64, e event) {
	cost := g.span(6000)
	corr := g.corr
	g.corr++
	ext := g.ext - 1
	i := g.add(event{kind: call, thread: on, name: api, ts: g.now, dur: cost, corr: corr, ext: ext})
	e.corr, e.ext = corr, ext
	e.ts = max(g.busy+g.span(800), g.now+cost/2)
	g.busy = e.ts + e.dur
	g.now += cost
	g.add(e)
	if api == "cudaMemcpyAsync" && e.name == "Memcpy DtoH (Device -> Pageable)" && g.busy > g.now {
		g.events[i].dur = g.busy - g.events[i].ts // a copy to pageable memory waits for the device
		g.now = g.busy
	}
}

// wait adds an API call that waits for the device.
func (g *generator) wait(api string, on int64) {
	start := g.now
	g.now = max(g.now, g.busy) + g.span(3000)
	g.add(event{kind: call, thread: on, name: api, ts: start, dur: g.now - start, corr: g.corr})
	g.corr++
}

func (g *generator) step(n int) {
	g.events = g.events[:0]
	if n == 0 {
		g.stats.FirstNS = g.now
	}
	var frame int
	if g.o.Python {
		frame = g.begin(python, "train.py(88): train_one_epoch", thread)
	}
	top := g.begin(annotation, stepName(n), thread)
	g.load()
	for l := range g.o.Layers {
		g.layer(l)
	}
	g.backward()
	g.optimizer()
	if n%4 == 0 {
		g.item()
	}
	g.end(top)
	if g.o.Python {
		g.end(frame)
	}
	g.now += g.span(20_000)
	g.stats.Steps++
	g.stats.LastNS = max(g.stats.LastNS, g.busy)
}

// load adds the data loader's work and the copy of its batch to the device.
func (g *generator) load() {
	i := g.begin(annotation, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", thread)
	g.now += g.span(300_000)
	g.end(i)
	i = g.begin(operator, "aten::to", thread)
	j := g.begin(operator, "aten::copy_", thread)
	g.launch("cudaMemcpyAsync", thread, event{kind: memcpy, name: "Memcpy HtoD (Pinned -> Device)", dur: g.span(180_000), bytes: 4 << 20, stream: copying})
	g.wait("cudaStreamSynchronize", thread)
	g.end(j)
	g.end(i)
}

var modules = [...]string{"nn.Module: Linear_0", "nn.Module: LayerNorm_0", "nn.Module: GELU_0", "nn.Module: Linear_1"}

func (g *generator) layer(l int) {
	for k, op := range forward {
		var frame int
		if g.o.Python {
			frame = g.begin(python, modules[(l+k)%len(modules)], thread)
		}
		i := g.begin(operator, op.outer, thread)
		g.events[i].seq, g.events[i].stack = g.seq, 1+(l+k)%len(stacks)
		g.seq++
		j := g.begin(operator, op.inner, thread)
		if g.o.Memory {
			g.add(event{kind: memory, thread: thread, ts: g.now, bytes: 1 << (12 + k)})
		}
		g.launch("cudaLaunchKernel", thread, event{kind: kernel, name: op.kernel, dur: g.span(op.ns), stream: compute, grid: op.grid})
		g.end(j)
		g.end(i)
		if g.o.Python {
			g.end(frame)
		}
	}
}

func (g *generator) backward() {
	for l := g.o.Layers - 1; l >= 0; l-- {
		for k := len(forward) - 1; k >= 0; k-- {
			op := forward[k]
			i := g.begin(operator, op.grad, worker)
			g.events[i].seq = g.seq - int64((g.o.Layers-1-l)*len(forward)+len(forward)-k)
			g.launch("cudaLaunchKernel", worker, event{kind: kernel, name: op.kernel, dur: g.span(op.ns * 2), stream: compute, grid: op.grid})
			g.end(i)
		}
	}
}

func (g *generator) optimizer() {
	i := g.begin(annotation, "Optimizer.zero_grad#AdamW.zero_grad", thread)
	g.launch("cudaMemsetAsync", thread, event{kind: memset, name: "Memset (Device)", dur: g.span(4000), bytes: 1 << 16, stream: compute})
	g.end(i)
	i = g.begin(annotation, "Optimizer.step#AdamW.step", thread)
	for range 4 {
		j := g.begin(operator, "aten::_foreach_addcdiv_", thread)
		g.launch("cudaLaunchKernel", thread, event{kind: kernel, name: foreach, dur: g.span(40_000), stream: compute, grid: 320})
		g.end(j)
	}
	g.end(i)
}

func (g *generator) item() {
	i := g.begin(operator, "aten::item", thread)
	j := g.begin(operator, "aten::_local_scalar_dense", thread)
	g.launch("cudaMemcpyAsync", thread, event{kind: memcpy, name: "Memcpy DtoH (Device -> Pageable)", dur: g.span(2000), bytes: 4, stream: compute})
	g.wait("cudaStreamSynchronize", thread)
	g.end(j)
	g.end(i)
}
