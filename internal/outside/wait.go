package outside

import (
	"context"
	"io"
	"os"
)

// waitFor opens a pipe that may have no writer yet, and waits at most until ctx ends. It closes a pipe that opens
// later.
func waitFor(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	got := make(chan opened)
	go func() {
		file, err := open()
		select {
		case got <- opened{file, err}:
		case <-ctx.Done():
			if err == nil {
				_ = file.Close() // nothing was read
			}
		}
	}()
	select {
	case o := <-got:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// interruptible reads a pipe or a device until ctx ends. A read that is blocked then continues in its own goroutine,
// into its own buffer.
type interruptible struct {
	ctx context.Context
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (i *interruptible) Read(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err
	}
	type part struct {
		b   []byte
		err error
	}
	got := make(chan part, 1)
	go func() {
		b := make([]byte, min(len(p), 1<<16))
		n, err := i.r.Read(b)
		got <- part{b[:n], err}
	}()
	select {
	case part := <-got:
		i.err = part.err
		return copy(p, part.b), part.err
	case <-i.ctx.Done():
		i.err = i.ctx.Err()
		return 0, i.err
	}
}
