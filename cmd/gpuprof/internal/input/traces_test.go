package input

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// What cannot be waited for is left when the program is asked to end.
func TestUnlessEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	begun, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	go func() {
		<-begun
		cancel()
	}()
	err := UnlessEnded(ctx, func() error {
		close(begun)
		<-never
		return nil
	})
	if cli.ExitCode(err) != cli.ExitInterrupted {
		t.Errorf("%v", err)
	}
	if err := UnlessEnded(t.Context(), func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
