package serving

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// readTrace reads the arrival times of the requests from a file, as offsets from the start of the load.
func readTrace(ctx context.Context, file string) ([]time.Duration, error) {
	text, err := outside.ReadAll(ctx, file)
	if err != nil {
		return nil, outside.Failed("reading arrivals from "+file, err, "give an existing file to --set arrivals=trace:FILE", "write it again")
	}
	return traffic.ParseTrace(text, file)
}

// refuseArrivals refuses a file that is no schedule, and an address at which the process cannot listen. It runs before
// any step is measured, because the load after the steps would fail.
func refuseArrivals(k settings) error {
	if file, is := k.traceFile(); is {
		if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() {
			return nil // only the session reads a pipe: it can be read once
		}
		_, err := readTrace(context.Background(), file) // does not block: a regular file has no writer to wait for
		return err
	}
	address, is := k.address()
	if !is {
		return nil
	}
	l, err := listen(context.Background(), address)
	if err != nil {
		return err
	}
	return l.Close()
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "listening for requests at %s: %w", address, err).WithFix("give another address or port to --set arrivals=http:ADDRESS:PORT, port 0 for a free one")
	}
	return l, nil
}
