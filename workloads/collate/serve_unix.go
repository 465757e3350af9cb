//go:build unix

package collate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Files that a worker process receives after the three standard ones.
const (
	ordersFile = 3 + iota
	answersFile
	firstRegionFile
)

// WorkerMain serves as a worker process if this process was started as one, and reports whether it did. A program
// with this workload calls WorkerMain first and exits if it returns true. A worker ends when its parent closes the
// pipe, as the system does for a dead parent.
func WorkerMain() bool {
	if os.Getenv(workerVariable) != protocol {
		return false
	}
	// Ctrl-C reaches every process of the terminal, but the parent decides when a worker ends.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	if err := serve(os.NewFile(ordersFile, "orders"), os.NewFile(answersFile, "answers")); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return true
}

// server is the worker process's side of the pipes.
type server struct {
	m       *maker
	slot    slot // the worker's own memory: batches are made here and then copied to shared memory
	regions []*region
	answers io.Writer
}

func serve(orders io.Reader, answers io.Writer) error {
	if err := writeMessage(answers, hello{protocol}); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	var c contract
	if err := readMessage(orders, &c); err != nil {
		return endedError(err)
	}
	s := &server{answers: answers}
	for i := range c.Slots {
		reg, err := openRegion(os.NewFile(uintptr(firstRegionFile+i), "region"))
		if err != nil {
			return err
		}
		s.regions = append(s.regions, reg)
	}
	s.slot.frame = frameOf(c.Caps)
	s.slot.home = make([]byte, 4*s.slot.frame.words)
	poison(s.slot.home)
	var err error
	if s.m, err = newMaker(&c.Recipe); err != nil {
		return err
	}
	for {
		var t task
		if err := readMessage(orders, &t); err != nil {
			return endedError(err)
		}
		if err := writeMessage(answers, s.doTask(t)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

// endedError returns the error of reading an order. It returns nil for a closed pipe, which is the order to end.
func endedError(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading orders: %w", err)
}

// doTask makes a batch and copies it to shared memory, as a loader's worker moves the tensors of its collate
// function.
func (s *server) doTask(t task) *reply {
	s.slot.index = t.Index
	s.m.makeBatch(&s.slot)
	if s.slot.err != nil {
		return &reply{Index: t.Index, Error: s.slot.err.Error()}
	}
	began := time.Now()
	shared := s.slot.batch
	place := frameOf(s.slot.rows)
	shared.at = place.at
	reg := s.regions[t.Slot]
	if err := reg.grow(4 * place.words); err != nil {
		return &reply{Index: t.Index, Error: fmt.Sprintf("collating batch %d: %v", t.Index, err)}
	}
	shared.mem = reg.mem
	for f := range fields {
		copy(shared.bytesOf(f), s.slot.bytesOf(f))
	}
	cost := s.slot.cost
	cost.Serialise = int64(time.Since(began))
	return &reply{Index: t.Index, Bytes: len(reg.mem), Arrays: describeArrays(&shared), Cost: cost}
}
