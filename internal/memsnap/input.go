package memsnap

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// window reads a stream in blocks and returns bytes without copying them.
type window struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte
	p, e int   // unread bytes are buf[p:e]
	off  int64 // file offset of buf[0]
	err  error // read error
}

// blockSize is the size of a read, bytes; a longer string is read at once. The buffer has spare more bytes after the
// text, so that eight bytes can be loaded at any position.
const (
	blockSize = 128 << 10
	spare     = 8
)

func (w *window) offset() int64 { return w.off + int64(w.p) }

// readBytes returns the next n bytes, valid until the next call; io.ErrUnexpectedEOF if the file ends before.
func (w *window) readBytes(n int) ([]byte, error) {
	if w.e-w.p < n {
		if err := w.fillBuffer(n); err != nil {
			return nil, err
		}
	}
	w.p += n
	return w.buf[w.p-n : w.p], nil
}

func (w *window) readNumber(n int) (uint64, error) {
	if w.e-w.p < n {
		if err := w.fillBuffer(n); err != nil {
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

func (w *window) fillBuffer(n int) error {
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
