package kineto

import (
	"context"
	"errors"
	"io"

	"github.com/gpuprof/gpuprof/internal/outside"
)

type readOptions struct {
	parsers int   // in addition to the merger's own
	block   int   // least bytes of text in a block
	room    int64 // memory budget, bytes (see Read)
}

var byteOrder = []byte{0xef, 0xbb, 0xbf}

// block is a range of text with padding.
type block struct {
	buf  []byte // n bytes of text, then padding
	n    int
	at   int64 // index of buf[0] in the text
	done chan *batch
}

func growBuffer(buf []byte, n int) []byte {
	if cap(buf) >= n+pad {
		return buf[:n+pad]
	}
	return append(make([]byte, 0, n+pad), buf...)[:n+pad]
}

func writePadding(buf []byte, n int) {
	for i := range buf[n : n+pad] {
		buf[n+i] = 0xFF
	}
}

// source reads and decompresses text and cuts it into blocks.
type source struct {
	block       int
	r           io.Reader
	close       func()
	compression string // "gzip", "zstd" or ""
	tail        []byte // text after the last cut
	at          int64  // index of the next block in the text
	err         error  // why reading ended, io.EOF at the end of the file
	empty       bool   // the file has no bytes
}

// openSource makes the source of a file's text, decompressed if needed.
func openSource(r io.Reader, block int) *source {
	text := outside.Unfold(r, outside.Trace())
	s := &source{block: block, r: text, close: text.Close, compression: text.Form()}
	if first := [1]byte{}; len(text.Peek(1)) == 0 {
		_, s.err = text.Read(first[:])
		s.empty = s.compression == "" && errors.Is(s.err, io.EOF)
	}
	return s
}

// nextBlock fills k with the next block. It returns false at the end of the text.
func (s *source) nextBlock(k *block) bool {
	// It cuts at the last event start in the last quarter of the block; the text after the cut goes into the next
	// block.
	search := s.block / 4
	if k.buf == nil {
		k.buf = make([]byte, s.block+search+pad)
	}
	k.buf = k.buf[:s.block+len(s.tail)+pad]
	n := copy(k.buf, s.tail)
	s.tail = s.tail[:0]
	for idle := 0; s.err == nil && n < len(k.buf)-pad; {
		m, err := s.r.Read(k.buf[n : len(k.buf)-pad])
		n += m
		s.err = err
		if idle++; m > 0 {
			idle = 0
		}
		if idle > 100 {
			s.err = io.ErrNoProgress
		}
	}
	k.at, k.n = s.at, n
	if s.err == nil {
		from := max(0, n-search)
		if cut := lastEventStart(k.buf[from:n]); cut > 0 {
			k.n = from + cut
			s.tail = append(s.tail, k.buf[k.n:n]...)
		}
	}
	writePadding(k.buf, k.n)
	s.at += int64(k.n)
	return k.n > 0
}

// readToEnd reads a compressed file to its end, where its checksum may show an error.
func (s *source) readToEnd(ctx context.Context) {
	if s.compression == "" {
		return
	}
	for buf := make([]byte, s.block); s.err == nil && ctx.Err() == nil; {
		_, s.err = io.ReadAtLeast(s.r, buf, 1)
	}
}

// feedBlocks sends each block to the channels work and order, until the text or ctx ends. The receiver of order sends
// used blocks back through free.
func (s *source) feedBlocks(ctx context.Context, order, work chan<- *block, free <-chan *block) {
	defer close(order)
	defer close(work)
	for first := true; ; first = false {
		var k *block
		select {
		case k = <-free:
		case <-ctx.Done():
			return
		}
		if !s.nextBlock(k) {
			return
		}
		k.done = make(chan *batch, 1)
		if first { // the merger reads it, because it begins before the first event
			k.done <- nil
		} else {
			select {
			case work <- k:
			case <-ctx.Done():
				return
			}
		}
		select {
		case order <- k:
		case <-ctx.Done():
			return
		}
	}
}
