//go:build unix

package collate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuprof/gpuprof"
)

// workerVariable is the environment variable that makes this program a worker.
const workerVariable = "GPUPROF_COLLATE_WORKER"

// helloWait is the time limit for the hello of a started program. It is long because many programs may start at once
// on a busy machine; only a program that never answers takes all of it.
const helloWait = 2 * time.Minute

func refuseProcesses() error {
	if os.Getenv(workerVariable) != "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting worker_kind=process: this process is a worker itself").WithFix("use --set worker_kind=goroutine")
	}
	return nil
}

// process is a worker in a process of its own, which runs this same program. Batches return through shared memory,
// everything else through two pipes. If the process dies, only its current batch is lost; it is started again for the
// next batch.
type process struct {
	r          *recipe
	slots      []*slot
	regions    []*region
	todo, done chan *slot
	ended      chan struct{}

	mu    sync.Mutex // guards child against stop
	child *child
	quit  bool
}

type child struct {
	cmd      *exec.Cmd
	orders   *os.File // pipe to the child
	answers  *os.File // pipe from the child
	said     tail     // standard error of the child
	answered bool
	over     chan struct{} // closed when the child is reaped
	bury     sync.Once
}

// stoppedLook is the interval between two checks whether a worker process is stopped by a signal.
const stoppedLook = time.Second

// killStopped kills a worker process that two checks in a row find stopped by a signal, because neither a closed pipe
// nor a time limit would end it. Its batch is lost, as with a worker that died.
func (c *child) killStopped() {
	look := time.NewTicker(stoppedLook)
	defer look.Stop()
	for seen := 0; seen < 2; {
		select {
		case <-c.over:
			return
		case <-look.C:
		}
		seen++
		if !isStopped(c.cmd.Process.Pid) {
			seen = 0
		}
	}
	_, _ = io.WriteString(&c.said, "it was stopped by a signal, and ended")
	_ = c.cmd.Process.Kill() // fails if the process has just ended
}

// isStopped reports whether a process is stopped by a signal, on Linux; false elsewhere.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := text[bytes.LastIndexByte(text, ')')+1:] // the process name before it may hold any characters
	return len(after) > 1 && after[1] == 'T'
}

func hireProcess(r *recipe, slots []*slot, ready *atomic.Int64) (worker, error) {
	if err := refuseProcesses(); err != nil {
		return nil, err
	}
	w := &process{r: r, slots: slots, todo: make(chan *slot, len(slots)), done: make(chan *slot, len(slots)), ended: make(chan struct{})}
	for _, sl := range slots {
		reg, err := newRegion(4 * sl.frame.words)
		if err != nil {
			return nil, errors.Join(err, w.unmap())
		}
		poison(reg.mem)
		w.regions = append(w.regions, reg)
	}
	if err := w.start(); err != nil {
		return nil, errors.Join(err, w.unmap())
	}
	go func() {
		defer close(w.ended)
		for sl := range w.todo {
			if w.isQuitting() {
				continue
			}
			sl.err = w.fillSlot(sl)
			ready.Add(1)
			w.done <- sl
		}
	}()
	return w, nil
}

func (w *process) ask(sl *slot)            { w.todo <- sl }
func (w *process) madeSlots() <-chan *slot { return w.done }

func (w *process) isQuitting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quit
}

// start starts the program and does not wait for its hello, so that workers start in parallel.
func (w *process) start() error {
	exe, err := os.Executable()
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "starting a collate worker: %w", err).WithFix("use --set worker_kind=goroutine")
	}
	in, orders, err := os.Pipe()
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "starting a collate worker: %w", err).WithFix("raise the limit of open files")
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return errors.Join(gpuprof.Errorf(gpuprof.ErrDevice, "starting a collate worker: %w", err).WithFix("raise the limit of open files"), in.Close(), orders.Close())
	}
	c := &child{orders: orders, answers: answers, over: make(chan struct{})}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), workerVariable+"="+protocol, "GOMAXPROCS=1")
	c.cmd.ExtraFiles = []*os.File{in, out}
	for _, reg := range w.regions {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, reg.file)
	}
	c.cmd.Stderr = &c.said
	err = c.cmd.Start()
	if e := errors.Join(in.Close(), out.Close()); err == nil {
		err = e
	}
	if err != nil {
		return errors.Join(gpuprof.Errorf(gpuprof.ErrDevice, "starting a collate worker: %w", err).WithFix("use --set worker_kind=goroutine"), orders.Close(), answers.Close())
	}
	go c.killStopped()
	w.mu.Lock()
	w.child = c
	quit := w.quit
	w.mu.Unlock()
	if quit { // stop was called in the meantime and found no child
		return errors.Join(gpuprof.Errorf(gpuprof.ErrDevice, "starting a collate worker: the run is ending"), w.reap(c))
	}
	return nil
}

// fillSlot makes the process fill a slot; it starts the process if necessary.
func (w *process) fillSlot(sl *slot) error {
	w.mu.Lock()
	c := w.child
	w.mu.Unlock()
	if c == nil {
		if err := w.start(); err != nil {
			return w.lostError(sl, err)
		}
		w.mu.Lock()
		c = w.child
		w.mu.Unlock()
	}
	place := 0
	for w.slots[place] != sl {
		place++
	}
	answer, err := w.runTask(c, task{sl.index, place})
	if err != nil {
		if e := w.reap(c); e != nil {
			err = fmt.Errorf("%w (%w)", err, e)
		}
		return w.lostError(sl, err)
	}
	if answer.Error != "" {
		return gpuprof.Errorf(gpuprof.ErrInput, "%s", answer.Error)
	}
	reg := w.regions[place]
	if err := reg.grow(answer.Bytes); err != nil {
		return w.lostError(sl, err)
	}
	sl.cost = answer.Cost
	if err := adoptArrays(&sl.batch, answer.Arrays, reg.mem); err != nil {
		return w.lostError(sl, err)
	}
	return nil
}

// runTask runs one task in the process. A new process first gets its contract.
func (w *process) runTask(c *child, t task) (*reply, error) {
	if !c.answered {
		if err := c.greet(contract{Recipe: *w.r, Slots: len(w.slots), Caps: w.slots[0].frame.caps}); err != nil {
			return nil, err
		}
		c.answered = true
	}
	if err := writeMessage(c.orders, t); err != nil {
		return nil, err
	}
	var answer reply
	if err := readMessage(c.answers, &answer); err != nil {
		return nil, err
	}
	if answer.Index != t.Index && answer.Error == "" {
		return nil, fmt.Errorf("it answered with batch %d", answer.Index)
	}
	return &answer, nil
}

// greet reads the hello of a new process, checks that it is a worker, and sends it the contract with.
func (c *child) greet(with contract) error {
	late := time.AfterFunc(helloWait, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	var h hello
	if err := readMessage(c.answers, &h); err != nil || h.Protocol != protocol {
		return fmt.Errorf("%s does not answer as a worker (%q, %w)", c.cmd.Path, h.Protocol, err)
	}
	return writeMessage(c.orders, with)
}

func (w *process) lostError(sl *slot, why error) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "collating batch %d: the worker process was lost with samples %d (%s) to %d: %w", sl.index, w.r.itemAt(sl.index, 0), w.r.nameOf(w.r.itemAt(sl.index, 0)), w.r.itemAt(sl.index, w.r.Batch-1), why).WithFix("run again, or use --set worker_kind=goroutine to see why")
}

// reap ends a process and returns its exit status and last output as an error, unless it ended cleanly and silently.
func (w *process) reap(c *child) error {
	w.mu.Lock()
	if w.child == c {
		w.child = nil
	}
	w.mu.Unlock()
	c.bury.Do(func() { close(c.over) })
	errs := []error{c.orders.Close()} // a closed pipe ends the worker
	late := time.AfterFunc(stopWait, func() { _ = c.cmd.Process.Kill() })
	err := c.cmd.Wait()
	late.Stop()
	errs = append(errs, c.answers.Close())
	text := strings.TrimSpace(c.said.String())
	switch {
	case err != nil:
		if err = fmt.Errorf("worker process %d ended with %w", c.cmd.Process.Pid, err); text != "" {
			err = fmt.Errorf("%w %s", err, text)
		}
	case text != "":
		err = fmt.Errorf("worker process %d said %s", c.cmd.Process.Pid, text)
	}
	return errors.Join(append(errs, err)...)
}

// stop implements worker. A process in the middle of a batch completes it first, or is killed after stopWait.
func (w *process) stop() error {
	w.mu.Lock()
	w.quit = true
	w.mu.Unlock()
	close(w.todo)
	late := time.AfterFunc(stopWait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.child != nil {
			_ = w.child.cmd.Process.Kill()
		}
	})
	<-w.ended
	late.Stop()
	w.mu.Lock()
	c := w.child
	w.mu.Unlock()
	if c != nil {
		if !c.answered { // it still waits for its contract
			_ = c.cmd.Process.Kill()
		}
		_ = w.reap(c) // all its requested batches have arrived, so its exit status does not matter
	}
	return w.unmap()
}

func (w *process) unmap() error {
	var errs []error
	for _, reg := range w.regions {
		errs = append(errs, reg.close())
	}
	w.regions = nil
	return errors.Join(errs...)
}

// tail keeps the last tailBytes of a process's output.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b); n > tailBytes {
		t.b = append(t.b[:0], t.b[n-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
