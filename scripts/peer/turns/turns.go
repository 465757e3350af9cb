// Package peerturns has the common code of the programs that compare gpuprof's kernels with others: a script writes
// a request line and waits for the answer, so that two programs take turns.
package peerturns

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// Open opens the host device with a number of threads, which is given as text.
func Open(threads string) (*host.Device, error) {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return nil, fmt.Errorf("reading THREADS: %w", err)
	}
	return host.Open(host.Options{Threads: n}) //nolint:wrapcheck // the device says what it opened
}

// Serve answers the requests that it reads from in, one line each, until the input ends.
func Serve[A any](in io.Reader, out io.Writer, answer func(request string) (A, error)) error {
	for requests := bufio.NewScanner(in); requests.Scan(); {
		a, err := answer(requests.Text())
		if err != nil {
			return err
		}
		fmt.Fprintln(out, a)
	}
	return nil
}

// Time answers every request "run N" that it reads from in with the median seconds of N calls of run. If before is not
// nil, Time calls it before each run, outside the measured time.
func Time(in io.Reader, out io.Writer, before, run func() error) error {
	return Serve(in, out, func(request string) (float64, error) {
		n, err := parseSteps(request)
		if err != nil {
			return 0, err
		}
		return medianTime(n, before, run)
	})
}

// TimeSteps answers a request "run N" with the seconds of run(N).
func TimeSteps(request string, run func(n int) error) (string, error) {
	n, err := parseSteps(request)
	if err != nil {
		return "", err
	}
	began := time.Now()
	err = run(n)
	return strconv.FormatFloat(time.Since(began).Seconds(), 'g', -1, 64), err
}

func medianTime(n int, before, run func() error) (float64, error) {
	if n < 1 {
		return 0, gpuprof.Errorf(nil, "timing %d steps", n).WithFix("ask for 1 or more")
	}
	times := make([]float64, n)
	for i := range times {
		if before != nil {
			if err := before(); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began).Seconds()
	}
	slices.Sort(times)
	return times[n/2], nil
}

// Write writes arrays to a file, one after the other, as little-endian float32.
func Write(path string, arrays ...[]float32) error {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	for _, v := range arrays {
		if err == nil {
			err = binary.Write(out, binary.LittleEndian, v)
		}
	}
	return errors.Join(err, out.Close())
}

// parseSteps parses N of the request "run N".
func parseSteps(request string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(request, "run "))
	if err != nil {
		return 0, fmt.Errorf("reading request %q: %w", request, err)
	}
	return n, nil
}
