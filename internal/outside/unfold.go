package outside

import (
	"bufio"
	"bytes"
	"context"
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
		in := &counted{r: t.r, left: l.stored(), limits: l, plain: true}
		if depth == layers {
			err = fmt.Errorf("it is compressed more than %d times over", layers)
		} else {
			z, err = t.open(form, in)
		}
		if err != nil {
			z = failing{err}
		}
		t.r = bufio.NewReaderSize(&counted{r: z, left: l.Text, limits: l, stored: in}, 1<<16)
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
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), skippable(head):
		return "zstd"
	}
	return ""
}

// skippable reports whether head begins a frame that a zstd decoder skips: 0x184D2A50 to
// 0x184D2A5F, little endian (RFC 8878, section 3.1.2). pzstd and the seekable format write some.
func skippable(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18})
}

// stored is how many bytes may be read to unfold text: frames that are skipped and members
// without content are no text, and a file of them could be read for ever.
func (l Limits) stored() int64 { return l.Text + l.Text/16 + 1<<16 }

// open begins to unfold what t holds, which is read through in.
func (t *Text) open(form string, in *counted) (io.Reader, error) {
	l := in.limits
	if form == "gzip" {
		return gzip.NewReader(in)
	}
	var h zstd.Header
	head, _ := t.r.Peek(zstd.HeaderMaxSize) // a cut one is found when it is read
	if l.whole && h.Decode(head) == nil && h.HasFCS && h.FrameContentSize > uint64(l.Text) {
		return nil, l.TooMuch()
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(l.window))
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
	plain  bool     // r does not decompress
	stored *counted // what r decompresses, nil for none
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
	if c.stored != nil && errors.Is(err, io.ErrUnexpectedEOF) { // a decoder hides why it skipped no further
		if _, large := errors.AsType[*TooLarge](c.stored.err); large {
			return c.stored.err
		}
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case c.plain || errors.Is(err, context.Canceled):
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
