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

// layers limits nested compressions: a download may add one.
const layers = 4

// Text reads decompressed text. Its error is the read error, an error for which Damaged is true, or a TooLarge.
type Text struct {
	r     *bufio.Reader
	form  string
	close []func()
}

// Unfold decompresses gzip or zstd, which it recognizes by the first bytes. Other text is unchanged.
func Unfold(r io.Reader, l Limits) *Text {
	if t, ok := r.(*Text); ok {
		return t
	}
	return decompress(bufio.NewReaderSize(r, 1<<16), l)
}

func decompress(raw *bufio.Reader, l Limits) *Text {
	t := &Text{r: raw}
	for depth := 0; ; depth++ {
		form := detectForm(t.r)
		if t.form == "" {
			t.form = form
		}
		if form == "" {
			break
		}
		var z io.Reader
		var err error
		in := &limitedReader{r: t.r, left: l.storedLimit(), limits: l, plain: true}
		if depth == layers {
			err = fmt.Errorf("it is compressed more than %d times over", layers)
		} else {
			z, err = t.openForm(form, in)
		}
		if err != nil {
			z = errorReader{err}
		}
		t.r = bufio.NewReaderSize(&limitedReader{r: z, left: l.Text, limits: l, stored: in}, 1<<16)
	}
	if t.form == "" {
		t.r = bufio.NewReaderSize(&limitedReader{r: raw, left: l.Text, limits: l, plain: true}, 1<<16)
	}
	return t
}

func detectForm(r *bufio.Reader) string {
	head, _ := r.Peek(4) // the read returns the error again
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), isSkippable(head):
		return "zstd"
	}
	return ""
}

// isSkippable reports whether head begins a skippable zstd frame: 0x184D2A50 to 0x184D2A5F, little endian (RFC 8878,
// section 3.1.2). pzstd and the seekable format write such frames.
func isSkippable(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18})
}

// storedLimit limits the stored bytes: skipped frames and empty members give no text, and could be read for ever.
func (l Limits) storedLimit() int64 { return l.Text + l.Text/16 + 1<<16 }

// openForm starts the decompression of t's text, which it reads through in.
func (t *Text) openForm(form string, in *limitedReader) (io.Reader, error) {
	l := in.limits
	if form == "gzip" {
		return gzip.NewReader(in)
	}
	var h zstd.Header
	head, _ := t.r.Peek(zstd.HeaderMaxSize) // the read returns an error for a truncated header
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

// Form returns the compression of the file: "gzip", "zstd" or "".
func (t *Text) Form() string { return t.form }

// Read implements io.Reader.
func (t *Text) Read(p []byte) (int, error) { return t.r.Read(p) }

// Peek returns the next n bytes, at most 64 KiB, or fewer at the end.
func (t *Text) Peek(n int) []byte {
	head, _ := t.r.Peek(n) // the read returns the error again
	return head
}

// Close releases the decompressors.
func (t *Text) Close() {
	for _, f := range t.close {
		f()
	}
	t.close = nil
}

// limitedReader returns an error if a text exceeds the limit.
type limitedReader struct {
	r      io.Reader
	left   int64
	limits Limits
	plain  bool           // r does not decompress
	stored *limitedReader // compressed input of r, nil if none
	err    error
}

// Read implements io.Reader.
func (c *limitedReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1] // one byte more, to detect an excess
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		n, err = n-1, c.limits.TooMuch()
	}
	c.err = c.markDamage(err)
	return n, c.err
}

// markDamage marks errors that come from decompression.
func (c *limitedReader) markDamage(err error) error {
	if c.stored != nil && errors.Is(err, io.ErrUnexpectedEOF) { // a decoder hides the cause
		if _, large := errors.AsType[*TooLarge](c.stored.err); large {
			return c.stored.err
		}
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case c.plain || errors.Is(err, context.Canceled):
		return trimPath(err)
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

type damage struct{ err error }

// Error returns the decompressor's text, or that the data end too early.
func (d *damage) Error() string {
	if errors.Is(d.err, io.ErrUnexpectedEOF) {
		return "the compressed data ends too early"
	}
	return d.err.Error()
}

// Unwrap returns the decompressor's error.
func (d *damage) Unwrap() error { return d.err }

// Damaged reports whether an error came from decompression.
func Damaged(err error) bool {
	_, is := errors.AsType[*damage](err)
	return is
}

type errorReader struct{ err error }

// Read implements io.Reader.
func (f errorReader) Read([]byte) (int, error) { return 0, f.err }
