package outside

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// layers is how often a file may be compressed over: a download may have been once
// more than its maker did.
const layers = 4

// Text is unfolded text. Reading it ends with the error of what was read, an error
// that Damaged holds for, or a TooLarge.
type Text struct {
	r     *bufio.Reader
	form  string
	close []func()
}

// Unfold unfolds what r holds, plain text, gzip or zstd, told by its first bytes.
func Unfold(r io.Reader, l Limits) *Text {
	if t, ok := r.(*Text); ok {
		return t
	}
	return unfold(bufio.NewReaderSize(r, 1<<16), l)
}

func unfold(raw *bufio.Reader, l Limits) *Text {
	t := &Text{r: raw}
	for depth := 0; ; depth++ {
		form := formOf(t.r)
		if t.form == "" {
			t.form = form
		}
		if form == "" {
			break
		}
		var z io.Reader
		var err error
		if depth == layers {
			err = fmt.Errorf("it is compressed more than %d times over", layers)
		} else {
			z, err = t.open(form, l)
		}
		if err != nil {
			z = failing{err}
		}
		t.r = bufio.NewReaderSize(&counted{r: z, left: l.Text, limits: l}, 1<<16)
	}
	if t.form == "" {
		t.r = bufio.NewReaderSize(&counted{r: raw, left: l.Text, limits: l, plain: true}, 1<<16)
	}
	return t
}

func formOf(r *bufio.Reader) string {
	head, _ := r.Peek(4) // the error comes again when it is read
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// open begins to unfold what t holds.
func (t *Text) open(form string, l Limits) (io.Reader, error) {
	if form == "gzip" {
		return gzip.NewReader(t.r)
	}
	var h zstd.Header
	head, _ := t.r.Peek(zstd.HeaderMaxSize) // a cut one is found when it is read
	if l.whole && h.Decode(head) == nil && h.HasFCS && h.FrameContentSize > uint64(l.Text) {
		return nil, l.TooMuch()
	}
	z, err := zstd.NewReader(t.r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(l.window))
	if err != nil {
		return nil, err
	}
	t.close = append(t.close, z.Close)
	return z, nil
}

// Form is how the file is compressed: "gzip", "zstd" or "".
func (t *Text) Form() string { return t.form }

// Read implements io.Reader.
func (t *Text) Read(p []byte) (int, error) { return t.r.Read(p) }

// Peek is the text's next n bytes, 64 KiB at most, or what there is of them.
func (t *Text) Peek(n int) []byte {
	head, _ := t.r.Peek(n) // the error comes again when it is read
	return head
}

// Close lets the decompressors go.
func (t *Text) Close() {
	for _, f := range t.close {
		f()
	}
	t.close = nil
}

// counted ends a text that is longer than the limit.
type counted struct {
	r      io.Reader
	left   int64
	limits Limits
	plain  bool // r does not decompress
	err    error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1] // one more, to see whether there is more
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		n, err = n-1, c.limits.TooMuch()
	}
	c.err = c.named(err)
	return n, c.err
}

// named marks the errors of decompressing.
func (c *counted) named(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case c.plain:
		return cause(err)
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &TooLarge{What: "unfolding it takes a zstd window of more than " + MemoryText(int64(c.limits.window)), Memory: c.limits.Memory}
	}
	if _, large := errors.AsType[*TooLarge](err); large {
		return err
	}
	if _, is := errors.AsType[*damage](err); is {
		return err
	}
	return &damage{err}
}

// damage is an error of decompressing.
type damage struct{ err error }

// Error is the decompressor's.
func (d *damage) Error() string { return d.err.Error() }

// Unwrap is the decompressor's error.
func (d *damage) Unwrap() error { return d.err }

// Damaged says that an error came from decompressing.
func Damaged(err error) bool {
	_, is := errors.AsType[*damage](err)
	return is
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
