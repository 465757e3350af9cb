package serving

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// traceOf returns the file of arrivals; false where the settings name no file.
func traceOf(set gpuprof.Settings) (string, bool) {
	return strings.CutPrefix(set["arrivals"], arriveTrace)
}

// readTrace reads the arrival times of the requests, as offsets from the start of the load; see traffic.ParseTrace.
func readTrace(ctx context.Context, file string) ([]time.Duration, error) {
	text, err := outside.ReadAll(ctx, file)
	if err != nil {
		return nil, outside.Failed("reading arrivals from "+file, err, "give an existing file to --set arrivals=trace:FILE", "write it again")
	}
	return traffic.ParseTrace(text, file)
}

// refuseArrivals refuses settings that would end the load before it begins, so that no steps are measured in vain: a
// file that is no schedule, and an address on which the process cannot listen.
func refuseArrivals(set gpuprof.Settings) error {
	if file, is := traceOf(set); is {
		if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() {
			return nil // a pipe can be read once, by the session
		}
		_, err := readTrace(context.Background(), file) // a regular file: there is no writer to wait for
		return err
	}
	address, is := addressOf(set)
	if !is {
		return nil
	}
	l, err := listen(context.Background(), address)
	if err != nil {
		return err
	}
	return l.Close()
}

// listen waits for connections at an address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "listening for requests at %s: %w", address, err).WithFix("give another address or port to --set arrivals=http:ADDRESS:PORT, port 0 for a free one")
	}
	return l, nil
}
