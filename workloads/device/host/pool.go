package host

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// chunksPerThread is the number of chunks of a kernel per thread. More chunks balance uneven items better, but cost
// more to hand out.
const chunksPerThread = 8

// pool is the device's threads: threads-1 helper goroutines, and the stream that starts a job. Streams share the
// helpers; a stream that finds none idle works alone.
type pool struct {
	threads int
	nudge   *nudge
	offers  chan offer
	ended   sync.WaitGroup
}

// offer invites a helper to take part in a run of a job. A helper that comes late finds the job closed, or in a later
// generation, and drops the offer.
type offer struct {
	job *job
	gen uint32
}

// job is one run of a kernel, split into chunks. Each stream owns one job and reuses it.
type job struct {
	state  atomic.Uint64 // generation<<32 | open | number of active helpers
	next   atomic.Int64  // first item not yet taken
	idle   chan struct{} // signalled by the last helper to leave a closed job
	gen    uint32
	kernel *device.Kernel
	args   *device.Args
	n      int
	chunk  int

	mu      sync.Mutex
	failure error
}

const (
	jobOpen   = 1 << 31
	jobActive = jobOpen - 1
)

func (j *job) init() { j.idle = make(chan struct{}, 1) }

func newPool(threads int, n *nudge) *pool {
	p := &pool{threads: threads, nudge: n, offers: make(chan offer, 4*threads)}
	for range threads - 1 {
		p.ended.Add(1)
		go p.runHelper()
	}
	return p
}

// close ends the helpers. No job may be running.
func (p *pool) close() {
	close(p.offers)
	p.ended.Wait()
}

func (p *pool) runHelper() {
	defer p.ended.Done()
	debug.SetPanicOnFault(true)
	for {
		for i := 0; i < spins && len(p.offers) == 0; i++ {
			runtime.Gosched()
		}
		o, ok := <-p.offers
		if !ok {
			return
		}
		if o.job.join(o.gen) {
			o.job.runChunks()
			o.job.leave()
		}
	}
}

// run executes items [0, n) of kernel k as job j, and returns the first panic as an error.
func (p *pool) run(j *job, k *device.Kernel, a *device.Args, n int) error {
	if n == 0 {
		return nil
	}
	j.kernel, j.args, j.n, j.failure = k, a, n, nil
	j.chunk = n
	if !k.Serial && p.threads > 1 {
		j.chunk = chunkLen(n, p.threads, k.Grain)
	}
	j.next.Store(0)
	helpers := min(p.threads, (n-1)/j.chunk+1) - 1
	if helpers == 0 {
		j.runChunks()
		return j.failure
	}
	j.gen++
	j.state.Store(uint64(j.gen)<<32 | jobOpen)
offering:
	for range helpers {
		select {
		case p.offers <- offer{j, j.gen}:
		default: // other streams keep the helpers busy
			break offering
		}
	}
	p.nudge.push()
	j.runChunks()
	j.close()
	return j.failure
}

// chunkLen returns how many items a thread takes at a time.
func chunkLen(n, threads, grain int) int {
	share := (n-1)/(threads*chunksPerThread) + 1
	return min(n, max(share, grain, 1))
}

func (j *job) join(gen uint32) bool {
	for {
		s := j.state.Load()
		if s>>32 != uint64(gen) || s&jobOpen == 0 {
			return false
		}
		if j.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

func (j *job) leave() {
	if s := j.state.Add(^uint64(0)); s&(jobOpen|jobActive) == 0 {
		j.idle <- struct{}{}
	}
}

// close admits no more helpers and waits for the active ones.
func (j *job) close() {
	if j.state.And(^uint64(jobOpen))&jobActive == 0 {
		return
	}
	for i := 0; i < spins && len(j.idle) == 0; i++ {
		runtime.Gosched()
	}
	<-j.idle
}

func (j *job) runChunks() {
	defer j.recoverPanic()
	chunk := int64(j.chunk)
	for {
		lo := int(j.next.Add(chunk) - chunk)
		if lo >= j.n {
			return
		}
		j.kernel.Host(j.args, lo, min(lo+j.chunk, j.n))
	}
}

func (j *job) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	j.next.Store(int64(j.n)) // skip the remaining chunks
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == nil {
		j.failure = panicError(p, panicSite())
	}
}

func panicError(p any, site string) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("%w (%s)", err, site)
	}
	return fmt.Errorf("%v (%s)", p, site)
}

// panicSite returns the file and line that panicked, to find the fault in a kernel.
func panicSite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicking && !inRuntime {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		panicking = panicking || inRuntime
		if !more {
			return "unknown place"
		}
	}
}
