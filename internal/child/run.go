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

// Patience is how long what was asked to end may take before it is killed.
const Patience = 5 * time.Second

// MostOutput is how much of a program's standard output is kept where a Command does
// not say, bytes: as much as of a file.
func MostOutput() int64 { return outside.DocumentText() }

const (
	wordsKept = 64 << 10               // of standard error, its last bytes
	drainFor  = time.Second            // Command.Drain where none is given
	lookEvery = 5 * time.Millisecond   // for what is left of an ended program
	killFor   = 500 * time.Millisecond // until a killed process is gone
)

// Why Run ended a program.
var (
	ErrLong    = errors.New("it had not ended in time and was ended")
	ErrMuch    = errors.New("it printed too much and was ended")
	ErrHurried = errors.New("it was killed")
	ErrStuck   = errors.New("it had not ended in time, and the system could not kill it: it hangs in a driver")
)

// Command is a program and how to run it. It runs in a process group of its own,
// without git's local variables (see Environ), and nothing that it starts outlives
// it.
type Command struct {
	Args  []string
	Name  string          // as the program is called; "" for Args[0]
	Dir   string          // "" for the present folder
	Env   []string        // further variables
	Limit time.Duration   // 0 for none
	Most  int64           // bytes of standard output; 0 for MostOutput
	Drain time.Duration   // how long output may come from what outlives the program; 0 for a second
	Hurry <-chan struct{} // closed: kill, do not wait for an orderly end
	// Spent, where set, gets the time that the program took.
	Spent *Spent
	// Leave, where set, has a program killed at its limit without an orderly end, and left
	// to itself where it is still there so long after that: a process that hangs in a
	// driver cannot be killed. 0 waits for its end.
	Leave time.Duration
}

// Spent is the time that a program took, from its start to its end.
type Spent struct {
	Wall time.Duration
	// CPU is user and system time of the program and of the descendants that were waited for. One that outlives
	// its parent is not in it.
	CPU time.Duration
}

// Run runs a program to its end, gives what it printed and the last of what it
// said on standard error. The error is the context's joined with how the program
// ended, ErrLong, ErrMuch, ErrHurried, an *exec.ExitError, or why it did not start.
func (c Command) Run(ctx context.Context) (out []byte, words string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	p, err := c.start(nil)
	if err != nil {
		return nil, "", err
	}
	printed := bounded{most: c.Most, full: make(chan struct{})}
	if printed.most == 0 {
		printed.most = MostOutput()
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&printed, p.Stdout) // until its end, or until End closes it
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
		defer func() { err = errors.Join(err, p.err) }() // how it ended says what it saved
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
	case <-printed.full: // it ended by itself just then
		err = errors.Join(err, ErrMuch)
	default:
	}
	if err == nil {
		err = ended
	}
	return printed.b.Bytes(), p.Words(), err
}

// Process is a program that runs.
type Process struct {
	Stdin  io.WriteCloser
	Stdout *os.File      // to be read until its end
	Ended  chan struct{} // closed when the program is gone
	Path   string

	c     Command
	cmd   *exec.Cmd
	mark  string
	err   error // how it ended; to be read once Ended is closed
	spent Spent // likewise
	said  *os.File
	heard chan struct{} // closed when standard error has ended
	words tail
}

// Start starts a program to talk with; End must follow.
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
	p := &Process{c: c, Ended: make(chan struct{}), heard: make(chan struct{}), mark: newMark()}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.Path = p.cmd.Path
	if c.Name != "" {
		p.cmd.Args[0] = c.Name
	}
	p.cmd.Dir, p.cmd.SysProcAttr = c.Dir, ownGroup()
	p.cmd.Env = append(append(Environ(), c.Env...), markVariable+"="+os.Getenv(markVariable)+p.mark)
	if in != nil {
		p.cmd.Stdin = in
	}
	// Plain files: Wait then waits for the program, and not for whoever else holds them.
	var out, say *os.File
	var err error
	if p.Stdout, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.said, say, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, p.Stdout.Close(), out.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = out, say
	started := make(chan error)
	go func() {
		// The system sends the signal of a parent's death when the thread ends that
		// started the child: this one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		began := time.Now()
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
		return nil, errors.Join(err, p.Stdout.Close(), p.said.Close())
	}
	go func() {
		defer close(p.heard)
		_, _ = io.Copy(&p.words, p.said)
	}()
	return p, nil
}

// drain waits a while for the output of what outlives a program, such as the tee
// of a shell's process substitution.
func (p *Process) drain(read <-chan struct{}) {
	late := time.NewTimer(cmp.Or(p.c.Drain, drainFor))
	defer late.Stop()
	for _, ended := range []<-chan struct{}{read, p.heard} {
		select {
		case <-ended:
		case <-late.C:
			return
		case <-p.c.Hurry:
			return
		}
	}
}

// End ends a program and all it started: SIGTERM first, and SIGKILL to what is
// there after Patience. It returns how the program ended, when it is gone. Words
// and the error are whole then.
func (p *Process) End() error {
	if p.Stdin != nil {
		_ = p.Stdin.Close() // it may have been closed
	}
	if left := p.left(); left.any() {
		left.signal(syscall.SIGTERM)
		left.signal(resume) // one that is stopped hears nothing else
		p.await(Patience, p.c.Hurry)
		for range 20 { // what it starts meanwhile is found in the next round
			if left = p.left(); !left.any() {
				break
			}
			left.signal(syscall.SIGKILL)
			p.await(killFor, nil)
		}
	}
	<-p.Ended
	p.drain(p.heard) // its last words may still be in the pipe
	_, _ = p.Stdout.Close(), p.said.Close()
	<-p.heard
	return p.err
}

// abandon kills a program and waits so long for its end as Command.Leave says. It returns
// ErrLong, or ErrStuck where it is still there. What it printed and said is whole then.
func (p *Process) abandon(read <-chan struct{}) error {
	left := p.left()
	left.signal(syscall.SIGKILL)
	late := time.NewTimer(p.c.Leave)
	defer late.Stop()
	err := ErrLong
	select {
	case <-p.Ended:
		p.left().signal(syscall.SIGKILL) // what it started just then
	case <-late.C:
		err = ErrStuck
	}
	// Nobody else may hold these up either.
	_, _ = p.Stdout.Close(), p.said.Close()
	<-read
	<-p.heard
	return err
}

// await waits until nothing is left, so long at most.
func (p *Process) await(most time.Duration, hurry <-chan struct{}) {
	look, late := time.NewTicker(lookEvery), time.NewTimer(most)
	defer look.Stop()
	defer late.Stop()
	for p.left().any() {
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-hurry:
			return
		}
	}
}

// Words is the last of what was said on standard error.
func (p *Process) Words() string { return p.words.String() }

// Pid is the program's process, which leads its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// remains are the processes of a program: its group, while the program itself
// lives, and others by number.
type remains struct {
	group int
	pids  []int
}

func (r remains) any() bool { return r.group != 0 || len(r.pids) > 0 }

func (r remains) signal(s syscall.Signal) {
	if r.group != 0 {
		_ = kill(-r.group, s) // it may be gone just now
	}
	for _, pid := range r.pids {
		_ = kill(pid, s)
	}
}

// left is what lives of the program. It asks first whether the program has ended and
// then looks for its children. In the other order a child that is started between the
// two would be missed.
func (p *Process) left() remains {
	r := remains{group: p.Pid()}
	select {
	case <-p.Ended:
		r.group = 0
		if !seesAll && kill(-p.Pid(), 0) == nil {
			r.group = p.Pid()
		}
	default:
	}
	r.pids = alive(p.mark, p.Pid())
	if !r.any() { // one that ended during the look may have started another behind it
		r.pids = alive(p.mark, p.Pid())
	}
	return r
}

// markVariable holds a mark for each gpuprof above a process: by it are found also
// those that left the group.
const markVariable = "GPUPROF_CHILD"

// newMark is of one child of this process: of one length always, since the size
// of the environment moves a program's stack.
func newMark() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s%x", ownMark(), b)
}

// ownMark begins the marks of all children of this process.
func ownMark() string {
	self := owner.Self()
	return markOf(self.Pid, self.Start)
}

func markOf(pid int, start uint64) string { return fmt.Sprintf(":%010d.%020d/", pid, start) }

// bounded keeps what is written up to a number of bytes.
type bounded struct {
	b    bytes.Buffer
	most int64
	full chan struct{}
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(b.b.Len()+len(p)) > b.most {
		close(b.full) // io.Copy ends with the error: there is no second time
		return 0, ErrMuch
	}
	return b.b.Write(p)
}

// tail keeps the last bytes that are written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b); n > wordsKept {
		t.b = append(t.b[:0], t.b[n-wordsKept:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
