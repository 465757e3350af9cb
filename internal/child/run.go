package child

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// Patience is the time between SIGTERM and SIGKILL.
const Patience = 5 * time.Second

// MostOutput returns the default limit of a program's standard output, bytes: the size limit of a document's text.
func MostOutput() int64 { return outside.DocumentText() }

const (
	wordsKept = 64 << 10               // limit of the kept end of standard error, bytes
	drainFor  = time.Second            // default of Command.Drain
	lookEvery = 5 * time.Millisecond   // interval of checks for remains of an ended program
	killFor   = 500 * time.Millisecond // wait for the end of a killed process
)

// Reasons why Run ended a program.
var (
	ErrLong    = errors.New("it had not ended in time and was ended")
	ErrMuch    = errors.New("it printed too much and was ended")
	ErrHurried = errors.New("it was killed")
	ErrStuck   = errors.New("it had not ended in time, and the system could not kill it: it hangs in a driver")
)

// Command describes a program to run. The program runs in a process group of its own, without git's local variables
// (see Environ). Its children end with it.
type Command struct {
	Args  []string
	Name  string          // argv[0] of the program; "" for Args[0]
	Dir   string          // "" for the present folder
	Env   []string        // further variables
	Limit time.Duration   // 0 for none
	Most  int64           // bytes of standard output; 0 for MostOutput
	Drain time.Duration   // wait for output of processes that outlive the program; 0 for a second
	Hurry <-chan struct{} // closed: kill without waiting for an orderly end
	// Spent, if set, receives the time that the program took.
	Spent *Spent
	// Leave, if set, makes Run kill a program at its limit at once, and return after at most this time even if the
	// program still exists: a process that hangs in a driver cannot be killed. 0 waits for its end.
	Leave time.Duration
}

// Spent is the time of a program, from its start to its end.
type Spent struct {
	Wall time.Duration
	// CPU is the user and system time of the program and the descendants that it waited for.
	CPU time.Duration
}

// Run runs a program to its end, and returns its output and the end of its standard error. The error joins the
// context's error with ErrLong, ErrMuch, ErrHurried, an *exec.ExitError, or the reason for which the program did not
// start.
func (c Command) Run(ctx context.Context) (out []byte, words string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	p, err := c.start(nil)
	if err != nil {
		return nil, "", err
	}
	printed := boundedBuffer{most: cmp.Or(c.Most, MostOutput()), full: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&printed, p.Stdout) // until the output ends, or End closes the pipe
	}()
	var late <-chan time.Time
	if c.Limit > 0 {
		timer := time.NewTimer(c.Limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-p.Ended:
		if c.Spent != nil {
			*c.Spent = p.spent
		}
		p.drain(read)
	case <-ctx.Done():
		err = ctx.Err()
		defer func() { err = errors.Join(err, p.err) }() // End below sets p.err, the program's exit status
	case <-late:
		err = ErrLong
		if c.Leave > 0 {
			err = p.abandon(read)
			return printed.b.Bytes(), p.Words(), err
		}
	case <-printed.full:
		err = ErrMuch
	case <-c.Hurry:
		err = ErrHurried
	}
	ended := p.End()
	<-read
	select {
	case <-printed.full: // the limit was reached just as the program ended
		err = errors.Join(err, ErrMuch)
	default:
	}
	if err == nil {
		err = ended
	}
	return printed.b.Bytes(), p.Words(), err
}

// Process is a running program.
type Process struct {
	Stdin  io.WriteCloser
	Stdout *os.File      // the caller reads it to its end
	Ended  chan struct{} // closed when the program has ended
	Path   string

	c          Command
	cmd        *exec.Cmd
	mark       string
	began      uint64 // start of the program by owner.StartOf, 0 if unknown
	err        error  // exit error; valid once Ended is closed
	spent      Spent  // valid once Ended is closed
	stderr     *os.File
	stderrDone chan struct{} // closed when standard error has ended
	stderrTail tailBuffer
}

// Start starts a program to communicate with. The caller must call End.
func (c Command) Start() (*Process, error) {
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p, err := c.start(in)
	if e := in.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	p.Stdin = orders
	return p, nil
}

func (c Command) start(in *os.File) (*Process, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	p := &Process{c: c, Ended: make(chan struct{}), stderrDone: make(chan struct{}), mark: newMark()}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.Path = p.cmd.Path
	if c.Name != "" {
		p.cmd.Args[0] = c.Name
	}
	p.cmd.Dir, p.cmd.SysProcAttr = c.Dir, newGroup()
	p.cmd.Env = append(append(Environ(), c.Env...), markVariable+"="+os.Getenv(markVariable)+p.mark)
	if in != nil {
		p.cmd.Stdin = in
	}
	// Give the child files, not buffers: with buffers, Wait would also wait for other processes that hold the pipes.
	var out, say *os.File
	var err error
	if p.Stdout, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.stderr, say, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, p.Stdout.Close(), out.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = out, say
	started := make(chan error)
	go func() {
		// The system signals a parent's death when the thread that started the child ends. Keep this thread until the
		// child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		began := time.Now()
		if err == nil {
			p.began = owner.StartOf(p.Pid()) // before Wait: until then the ID is the program's
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			p.spent.Wall = time.Since(began)
			if s := p.cmd.ProcessState; s != nil {
				p.spent.CPU = s.UserTime() + s.SystemTime()
			}
		}
		close(p.Ended)
	}()
	err = <-started
	if e := errors.Join(out.Close(), say.Close()); err == nil {
		err = e
	}
	if err != nil {
		return nil, errors.Join(err, p.Stdout.Close(), p.stderr.Close())
	}
	go func() {
		defer close(p.stderrDone)
		_, _ = io.Copy(&p.stderrTail, p.stderr)
	}()
	return p, nil
}

// drain waits for the output of processes that outlive the program, such as the tee of a shell's process substitution.
func (p *Process) drain(read <-chan struct{}) {
	late := time.NewTimer(cmp.Or(p.c.Drain, drainFor))
	defer late.Stop()
	for _, ended := range []<-chan struct{}{read, p.stderrDone} {
		select {
		case <-ended:
		case <-late.C:
			return
		case <-p.c.Hurry:
			return
		}
	}
}

// End ends a program and its children, with SIGTERM and after Patience with SIGKILL. It returns the exit error.
func (p *Process) End() error {
	if p.Stdin != nil {
		_ = p.Stdin.Close() // it may be closed already
	}
	if left := p.findRemains(); left.isNonempty() {
		left.signal(syscall.SIGTERM)
		left.signal(resume) // a stopped process receives no other signal
		p.awaitEnd(Patience, p.c.Hurry)
		for range 20 { // the next round finds processes started meanwhile
			if left = p.findRemains(); !left.isNonempty() {
				break
			}
			left.signal(syscall.SIGKILL)
			p.awaitEnd(killFor, nil)
		}
	}
	<-p.Ended
	p.drain(p.stderrDone) // the end of its output may still be in the pipe
	_, _ = p.Stdout.Close(), p.stderr.Close()
	<-p.stderrDone
	return p.err
}

// abandon kills a program and waits at most Command.Leave. It returns ErrLong, or ErrStuck if the program still exists.
func (p *Process) abandon(read <-chan struct{}) error {
	left := p.findRemains()
	left.signal(syscall.SIGKILL)
	late := time.NewTimer(p.c.Leave)
	defer late.Stop()
	err := ErrLong
	select {
	case <-p.Ended:
		p.findRemains().signal(syscall.SIGKILL) // children started just then
	case <-late.C:
		err = ErrStuck
	}
	// Other processes that hold the pipes must not block the reads.
	_, _ = p.Stdout.Close(), p.stderr.Close()
	<-read
	<-p.stderrDone
	return err
}

// awaitEnd waits until no process is left, but at most for the time most.
func (p *Process) awaitEnd(most time.Duration, hurry <-chan struct{}) {
	look, late := time.NewTicker(lookEvery), time.NewTimer(most)
	defer look.Stop()
	defer late.Stop()
	for p.findRemains().isNonempty() {
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-hurry:
			return
		}
	}
}

// Words returns the end of standard error.
func (p *Process) Words() string { return p.stderrTail.String() }

// Pid returns the program's process ID, which is also the ID of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// processSet has the live processes of a program: its group (0: none) and further processes by ID.
type processSet struct {
	group int
	pids  []int
}

func (r processSet) isNonempty() bool { return r.group != 0 || len(r.pids) > 0 }

func (r processSet) signal(s syscall.Signal) {
	if r.group != 0 {
		_ = kill(-r.group, s) // the group may have ended
	}
	for _, pid := range r.pids {
		_ = kill(pid, s)
	}
}

// findRemains returns the program's live processes. It checks first whether the program has ended, and then looks for
// children: in the other order it would miss a child that starts in between.
func (p *Process) findRemains() processSet {
	r := processSet{group: p.Pid()}
	select {
	case <-p.Ended:
		r.group = 0
		if !seesAll && kill(-p.Pid(), 0) == nil {
			r.group = p.Pid()
		}
	default:
	}
	r.pids = liveProcesses(p.mark, p.Pid(), p.began)
	if !r.isNonempty() { // a process that ended during the scan may have started another process
		r.pids = liveProcesses(p.mark, p.Pid(), p.began)
	}
	return r
}

// markVariable is the environment variable with a mark of each gpuprof among a process's ancestors. The marks also
// identify processes that left their group.
const markVariable = "GPUPROF_CHILD"

// newMark returns the mark of one child. Its length is constant, because the size of the environment shifts a program's
// stack.
func newMark() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s%x", markPrefix(), b)
}

// markPrefix returns the prefix of the marks of all children of this process.
func markPrefix() string {
	self := owner.Self()
	return markOf(self.Pid, self.Start)
}

func markOf(pid int, start uint64) string { return fmt.Sprintf(":%010d.%020d/", pid, start) }

// boundedBuffer is a buffer with a maximum size.
type boundedBuffer struct {
	b    bytes.Buffer
	most int64
	full chan struct{}
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if int64(b.b.Len()+len(p)) > b.most {
		close(b.full) // io.Copy ends with the error, so the channel is closed once
		return 0, ErrMuch
	}
	return b.b.Write(p)
}

// tailBuffer keeps the last bytes written.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b); n > wordsKept {
		t.b = append(t.b[:0], t.b[n-wordsKept:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
