package memsnap

import (
	"context"
	"encoding/binary"
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
// spare bytes behind let a number be loaded as eight bytes, whatever its length.
const (
	blockSize = 128 << 10
	spare     = 8
)

func newWindow(ctx context.Context, r io.Reader) *window {
	return &window{ctx: ctx, r: r, buf: make([]byte, blockSize+spare)}
}

// at is the place of the next byte in the file.
func (w *window) at() int64 { return w.off + int64(w.p) }

// take returns the next n bytes and goes on behind them; io.ErrUnexpectedEOF where the
// file has fewer, or what reading gave. They are good until the next call.
func (w *window) take(n int) ([]byte, error) {
	if w.e-w.p < n {
		if err := w.fill(n); err != nil {
			return nil, err
		}
	}
	w.p += n
	return w.buf[w.p-n : w.p], nil
}

// number takes the next n bytes, at most eight, as a number, the lowest byte first.
func (w *window) number(n int) (uint64, error) {
	if w.e-w.p < n {
		if err := w.fill(n); err != nil {
			return 0, err
		}
	}
	x := binary.LittleEndian.Uint64(w.buf[w.p:])
	w.p += n
	if n == 8 {
		return x, nil
	}
	return x & (1<<(8*uint(n)) - 1), nil
}

func (w *window) fill(n int) error {
	to := w.buf
	if n > len(to)-spare {
		to = make([]byte, n+blockSize+spare)
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
		k, err := w.r.Read(w.buf[w.e : len(w.buf)-spare])
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
