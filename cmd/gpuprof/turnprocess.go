package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/measure"
)

// turnProcess is a gpuprof of one side that measures a block of steps whenever
// it is asked to, see takeTurns.
type turnProcess struct {
	name     string
	run      children
	patience func() <-chan time.Time // begins with every question: when an answer is too late
	cmd      *exec.Cmd
	in       io.WriteCloser
	words    bytes.Buffer  // of standard error; to be read once ended is closed
	lines    chan []byte   // what it answers; closed where that ends
	last     []byte        // of them
	quit     chan struct{} // closed when nobody reads lines any more
	ended    chan struct{} // closed when the process is gone; err says how
	err      error
}

// maxAnswer bounds a line: a result of some ten thousand samples has 10 MB.
const maxAnswer = 256 << 20

// startTurns starts a side. What is started is to be stopped.
func (c children) startTurns(s side, patience func() <-chan time.Time) (*turnProcess, error) {
	p := &turnProcess{name: s.name, run: c, patience: patience, lines: make(chan []byte), quit: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command(s.turns[0], s.turns[1:]...)
	if exe, err := os.Executable(); err == nil && exe == s.turns[0] {
		p.cmd.Args[0] = os.Args[0] // as this program was called
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = s.dir, child.Environ(), &p.words, stopDelay
	// A group of its own: a Ctrl-C of the terminal is the gate's to pass on, and
	// whatever the process starts ends with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out io.ReadCloser
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		if out, err = p.cmd.StdoutPipe(); err == nil {
			err = p.cmd.Start()
		}
	}
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: starting %s: %w; give --against a program that can be run", s.name, s.turns[0], err)
	}
	go p.read(out)
	return p, nil
}

// read hands the process's lines on until it ends.
func (p *turnProcess) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for more := true; more && lines.Scan(); {
		select {
		case p.lines <- bytes.Clone(lines.Bytes()):
		case <-p.quit:
			more = false
		}
	}
	close(p.lines)
	if lines.Err() != nil {
		p.signal(syscall.SIGKILL) // a line without an end
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// signal reaches the process and what it started.
func (p *turnProcess) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// stop ends the process and all it started, and returns when it is gone: asked
// at first, and killed when that takes too long.
func (p *turnProcess) stop() {
	close(p.quit)
	_ = p.in.Close()
	p.signal(syscall.SIGTERM)
	late := time.NewTimer(stopDelay)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-p.run.hurry:
	case <-late.C:
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// ask writes one line and waits for the answer. "" only waits.
func (p *turnProcess) ask(question string) (turnAnswer, error) {
	var a turnAnswer
	if question != "" {
		// A process that is gone says why in its last words.
		_, _ = io.WriteString(p.in, question+"\n")
	}
	select {
	case <-p.run.app.ctx.Done():
		return a, fmt.Errorf("measuring %s: %w; nothing is kept of a gate that did not end", p.name, errInterrupted)
	case <-p.patience():
		return a, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: its process has not answered within the time for the whole gate and was ended; run %s by itself to see why, or give more --budget", p.name, p.cmd.Path)
	case line, ok := <-p.lines:
		if !ok {
			return a, p.gone()
		}
		p.last = line
		if err := json.Unmarshal(line, &a); err != nil {
			return a, p.unexpected()
		}
		return a, nil
	}
}

// unexpected is the error of an answer that is none.
func (p *turnProcess) unexpected() error {
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s answered %.60q when it was asked to take its turn; give a gpuprof to --against", p.name, p.cmd.Path, p.last)
}

// gone is why a process ended that was asked for more.
func (p *turnProcess) gone() error {
	p.signal(syscall.SIGKILL) // what it started may hold its standard error open
	<-p.ended
	if p.run.app.ctx.Err() != nil {
		return fmt.Errorf("measuring %s: %w; nothing is kept of a gate that did not end", p.name, errInterrupted)
	}
	if p.err == nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s ended before it had answered; run it by itself to see why", p.name, p.cmd.Path)
	}
	return &deadError{gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed: %w; run it by itself to see why", p.name, p.cmd.Path, withWords(p.err, p.words.String()))}
}

// deadError is a process that ended with an error before it had answered.
type deadError struct{ error }

func (e *deadError) Unwrap() error { return e.error }

// code is its exit code, -1 after a signal.
func (e *deadError) code() int {
	exit, ok := errors.AsType[*exec.ExitError](e.error)
	if !ok {
		return -1
	}
	return exit.ExitCode()
}

// ready waits until the process has checked its workload and is warm.
func (p *turnProcess) ready() (protocol int, err error) {
	a, err := p.ask("")
	if err == nil && a.Ready == 0 {
		err = p.unexpected()
	}
	return a.Ready, err
}

// turn measures for one turn.
func (p *turnProcess) turn(d time.Duration) (measure.Turn, error) {
	a, err := p.ask(d.String())
	switch {
	case err != nil:
		return measure.Turn{}, err
	case a.Turn == nil || a.Turn.Samples < 1 || a.Turn.Stages < 1 || a.Turn.Rates < 1 || !(a.Turn.Seconds > 0):
		return measure.Turn{}, p.unexpected()
	}
	return *a.Turn, nil
}

// result ends the turns and gives the run that they make.
func (p *turnProcess) result() (*gpuprof.Run, error) {
	a, err := p.ask(turnsEnd)
	if err != nil {
		return nil, err
	}
	if a.Run == nil {
		return nil, p.unexpected()
	}
	runs, err := gpuprof.DecodeRuns(bytes.NewReader(a.Run), p.name)
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}
