package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// A gate starts one process of each build with run --blocks-on-stdin, and the two measure alternately. The gate writes
// a line with a duration ("40ms") for each turn. The last line is TurnsEnd, or TurnsLoad if the process shall then
// serve a load of requests. The process writes one line of JSON when it is ready, and one for each line that it reads.
// It uses no CPU while it waits, and ends when its standard input ends.

// takeTurns implements run --blocks-on-stdin: it measures one turn for each line of in, and prints the answers.
func (s *session) takeTurns(in io.Reader) error {
	if len(s.plans) != 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring in turns: %d settings were given, and turns take one", len(s.plans)).WithFix("give each --set one value")
	}
	ctx, cancel := context.WithCancel(s.app.Ctx)
	defer cancel()
	requests := make(chan string)
	go func() {
		defer cancel() // the gate is gone
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case requests <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	dev, err := s.aim.Device.Open()
	if err != nil {
		return err
	}
	plan := s.plans[0]
	instruments, done := s.app.Instruments(dev)
	defer done()
	plan.Instruments = instruments
	out := json.NewEncoder(s.app.Stdout)
	reply := judge.TurnAnswer{Ready: judge.TurnsProtocol}
	run, err := measure.RunTurns(ctx, dev, plan, func(last measure.Turn) (time.Duration, error) {
		if reply.Ready == 0 {
			reply.Turn = &last
		}
		reply.Serves = last.Serves
		if err := out.Encode(reply); err != nil {
			return 0, err
		}
		reply.Ready = 0
		return nextTurn(ctx, requests)
	})
	err = errors.Join(err, dev.Close())
	if ctx.Err() != nil {
		return fmt.Errorf("measuring %s in turns: %w", s.aim.Workload.Name(), cli.ErrInterrupted)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("encoding the run: %w", err)
	}
	return out.Encode(judge.TurnAnswer{Run: text})
}

// lastLoad parses the arguments of a TurnsLoad line. It returns the load as a measure.LastLoad, which is an error value
// that ends the turns.
func lastLoad(text string) error {
	var load measure.LastLoad
	var least, most string
	_, err := fmt.Sscan(text, &load.Rate, &least, &most)
	if err == nil {
		load.MinTime, err = time.ParseDuration(least)
	}
	if err == nil {
		load.MaxTime, err = time.ParseDuration(most)
	}
	if err != nil || !(load.Rate >= 0) || load.MaxTime < load.MinTime {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading %q: it is no rate with two times", text).WithFix("give for example %s 100 2s 8s", judge.TurnsLoad)
	}
	return load
}

func nextTurn(ctx context.Context, requests <-chan string) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case text := <-requests:
		if text == judge.TurnsEnd {
			return 0, io.EOF
		}
		if load, is := strings.CutPrefix(text, judge.TurnsLoad+" "); is {
			return 0, lastLoad(load)
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading %q: it is neither a time nor %q", text, judge.TurnsEnd).WithFix("give for example 40ms")
		}
		return d, nil
	}
}
