// Package peerturns is what the programs that race gpuprof's kernels with others share: a
// script writes a request on a line and waits for the answer, so that two programs take turns.
package peerturns

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/host"
)

// Open opens the host device with as many threads as a text says.
func Open(threads string) (*host.Device, error) {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return nil, fmt.Errorf("reading THREADS: %w", err)
	}
	return host.Open(host.Options{Threads: n}) //nolint:wrapcheck // the device says what it opened
}

// Serve answers the requests of in, a line each, until they end.
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

// Steps is N of the request "run N".
func Steps(request string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(request, "run "))
	if err != nil {
		return 0, fmt.Errorf("reading request %q: %w", request, err)
	}
	return n, nil
}
