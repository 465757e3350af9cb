package memsnap

import (
	"context"
	"errors"
	"io"
)

// window is text that is read in blocks and looked at in place.
type window struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte
	p, e int   // the part that was not taken yet
	off  int64 // of buf[0]
	err  error // of reading, once met
}

// blockSize is how much is read at a time, bytes; a longer string makes room for itself.
const blockSize = 128 << 10

func newWindow(ctx context.Context, r io.Reader) *window {
	return &window{ctx: ctx, r: r, buf: make([]byte, blockSize)}
}

// at is the place of the next byte in the file.
func (w *window) at() int64 { return w.off + int64(w.p) }

// need returns the next n bytes without taking them; io.ErrUnexpectedEOF where the
// file has fewer, or what reading gave.
func (w *window) need(n int) ([]byte, error) {
	if w.e-w.p < n {
		if err := w.fill(n); err != nil {
			return nil, err
		}
	}
	return w.buf[w.p : w.p+n], nil
}

// take returns the next n bytes, like need, and goes on behind them.
func (w *window) take(n int) ([]byte, error) {
	b, err := w.need(n)
	if err == nil {
		w.p += n
	}
	return b, err
}

func (w *window) fill(n int) error {
	to := w.buf
	if n > len(to) {
		to = make([]byte, n+blockSize)
	}
	copy(to, w.buf[w.p:w.e])
	w.buf = to
	w.off += int64(w.p)
	w.e -= w.p
	w.p = 0
	if err := w.ctx.Err(); err != nil {
		return err
	}
	for w.e < n && w.err == nil {
		k, err := w.r.Read(w.buf[w.e:])
		w.e += k
		w.err = err
	}
	switch {
	case w.e >= n:
		return nil
	case errors.Is(w.err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return w.err
}
