package judge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// TurnProcess is a running gpuprof of one side that measures on request, see gpuprof run --blocks-on-stdin.
type TurnProcess struct {
	name     string
	run      Children
	patience func() <-chan time.Time // called for each question; returns a channel that fires at the time limit
	Proc     *child.Process
	lines    chan []byte   // the process's answers; closed after the last
	last     []byte        // latest answer
	quit     chan struct{} // closed when nothing reads lines any more
	end      sync.Once
	Err      error // exit error, set by endProcess
	serves   bool  // the process can serve a load of requests after its turns
}

// maxAnswer limits the length of an answer, which is one line, in bytes. A result of ten thousand samples takes 10 MB.
const maxAnswer = 256 << 20

// StartTurns starts the process of a side. The caller must call Stop.
func (c Children) StartTurns(s Side, patience func() <-chan time.Time) (*TurnProcess, error) {
	p := &TurnProcess{name: s.Name, run: c, patience: patience, lines: make(chan []byte), quit: make(chan struct{})}
	run := child.Command{Args: s.Turns, Dir: s.Dir, Hurry: c.hurry}
	if exe, err := os.Executable(); err == nil && exe == s.Turns[0] {
		run.Name = os.Args[0] // the name under which this program was called
	}
	var err error
	if p.Proc, err = run.Start(); err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: starting %s: %w", s.Name, s.Turns[0], err).WithFix("give --against a program that can be run")
	}
	go p.readLines()
	return p, nil
}

func (p *TurnProcess) readLines() {
	lines := bufio.NewScanner(p.Proc.Stdout)
	lines.Buffer(nil, maxAnswer)
	for more := true; more && lines.Scan(); {
		select {
		case p.lines <- bytes.Clone(lines.Bytes()):
		case <-p.quit:
			more = false
		}
	}
	close(p.lines)
}

// Stop ends the process and its descendants, and waits for their end.
func (p *TurnProcess) Stop() {
	close(p.quit)
	p.endProcess()
}

func (p *TurnProcess) endProcess() {
	p.end.Do(func() { p.Err = p.Proc.End() })
}

// ask writes a question to the process, as one line, and waits for the answer. If the question is empty, it only waits.
func (p *TurnProcess) ask(question string) (TurnAnswer, error) {
	var a TurnAnswer
	if question != "" {
		// Ignore the error: a process that has ended gives the reason in its last message.
		_, _ = io.WriteString(p.Proc.Stdin, question+"\n")
	}
	select {
	case <-p.run.App.Ctx.Done():
		return a, interruptedGate(p.name)
	case <-p.patience():
		flag := "--budget"
		if p.run.Devices {
			flag = "--max-time"
		}
		return a, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: its process has not answered within the time for the whole measurement and was ended", p.name).WithFix("run %s by itself to see why, or give more %s", p.Proc.Path, flag)
	case line, ok := <-p.lines:
		if !ok {
			return a, p.exitError()
		}
		p.last = line
		if err := json.Unmarshal(line, &a); err != nil {
			return a, p.answerError()
		}
		return a, nil
	}
}

func (p *TurnProcess) answerError() error {
	return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s answered %.60q when it was asked to take its turn", p.name, p.Proc.Path, p.last).WithFix("give a gpuprof to --against")
}

func (p *TurnProcess) exitError() error {
	p.endProcess()
	if p.run.App.Ctx.Err() != nil {
		return interruptedGate(p.name)
	}
	if p.Err == nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s ended before it had answered", p.name, p.Proc.Path).WithFix("run it by itself to see why")
	}
	return &DeadError{gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %s failed: %w", p.name, p.Proc.Path, addMessage(p.Err, p.Proc.Words())).WithFix("run it by itself to see why")}
}

// DeadError is the error of a process that failed before it answered.
type DeadError struct{ error }

func (e *DeadError) Unwrap() error { return e.error }

// exitCode returns the exit code; -1 if a signal ended the process.
func (e *DeadError) exitCode() int {
	exit, ok := errors.AsType[*exec.ExitError](e.error)
	if !ok {
		return -1
	}
	return exit.ExitCode()
}

// Ready waits until the process has checked its workload and is warm. It returns the version of the protocol.
func (p *TurnProcess) Ready() (protocol int, err error) {
	a, err := p.ask("")
	if err == nil && a.Ready == 0 {
		err = p.answerError()
	}
	p.serves = a.Serves
	return a.Ready, err
}

// Turn asks the process to measure for the time d, and returns the numbers of its new samples.
func (p *TurnProcess) Turn(d time.Duration) (measure.Turn, error) {
	a, err := p.ask(d.String())
	switch {
	case err != nil:
		return measure.Turn{}, err
	case a.Turn == nil || a.Turn.Samples < 1 || a.Turn.Stages < 1 || a.Turn.Rates < 1 || !(a.Turn.Seconds > 0):
		return measure.Turn{}, p.answerError()
	}
	return *a.Turn, nil
}

// Result ends the turns with the line question, TurnsEnd or a TurnsLoad line, and returns the run with the samples of
// all turns.
func (p *TurnProcess) Result(question string) (*gpuprof.Run, error) {
	a, err := p.ask(question)
	if err != nil {
		return nil, err
	}
	if a.Run == nil {
		return nil, p.answerError()
	}
	runs, err := document.Runs(a.Run, p.name)
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// Protocol of a process that measures on request: questions on its standard input, answers on its standard output.
const (
	TurnsFlag     = "--blocks-on-stdin"
	TurnsProtocol = 2 // version; in version 1 a step's time included the probe of the stages
	TurnsEnd      = "end"
	TurnsLoad     = "serve" // followed by RATE MIN-TIME MAX-TIME
)

// TurnAnswer is an answer of the process, one line of JSON.
type TurnAnswer struct {
	// Ready is the version of the protocol (TurnsProtocol), once the check has passed and the process is warm.
	Ready  int             `json:"ready,omitempty"`
	Serves bool            `json:"serves,omitempty"` // with Ready: the process can serve a load (TurnsLoad)
	Turn   *measure.Turn   `json:"turn,omitempty"`
	Run    json.RawMessage `json:"run,omitempty"` // a run.json, the answer to TurnsEnd and TurnsLoad
}

// OwnDeviceFlag is given together with TurnsFlag if the processes that take turns use different devices. A process then
// counts every other process on its device as foreign.
const OwnDeviceFlag = "--own-device"
