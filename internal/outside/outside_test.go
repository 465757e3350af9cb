package outside

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
)

func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packedZ(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func put(t testing.TB, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A document is read whatever it is compressed with, and however often.
func TestUnfolds(t *testing.T) {
	text := []byte(strings.Repeat("some text\n", 1000))
	for name, stored := range map[string][]byte{
		"plain": text, "gzip": packed(t, text), "zstd": packedZ(t, text),
		"two members":  append(packed(t, text[:100]), packed(t, text[100:])...),
		"gzip of zstd": packed(t, packedZ(t, text)), "gzip of gzip": packed(t, packed(t, text)),
	} {
		got, err := ReadAll(t.Context(), put(t, stored))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	for name, stored := range map[string][]byte{
		"cut gzip": packed(t, text)[:40], "cut zstd": packedZ(t, text)[:10], "no gzip": []byte("\x1f\x8bxxxxxxxxxxxxxx"),
		"cut inside": packed(t, packedZ(t, text)[:10]),
		"too often":  packed(t, packed(t, packed(t, packed(t, packed(t, text))))),
	} {
		if _, err := ReadAll(t.Context(), put(t, stored)); !Damaged(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is larger than the limit is refused by a sentence that names limit and
// setting, whatever it is and however it is compressed.
func TestBounded(t *testing.T) {
	t.Setenv(MemoryVariable, "5120KiB") // 800 KiB of text
	most := int(Document().Text)
	over := bytes.Repeat([]byte{' '}, most+1)
	for name, path := range map[string]string{
		"plain": put(t, over), "gzip": put(t, packed(t, over)), "zstd": put(t, packedZ(t, over)), "device": "/dev/zero",
		"gzip of gzip": put(t, packed(t, packed(t, over))), "gzip of zstd": put(t, packed(t, packedZ(t, over))), "pipe": fifo(t, over),
	} {
		_, err := ReadAll(t.Context(), path)
		large, ok := errors.AsType[*TooLarge](err)
		if !ok || !strings.Contains(large.Error(), "800KiB") || !strings.Contains(large.Error(), MemoryVariable+"=20MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := ReadAll(t.Context(), put(t, packed(t, over[:most]))); err != nil || len(b) != most {
		t.Errorf("as much as the limit: %d bytes, %v", len(b), err)
	}
	t.Setenv(MemoryVariable, "20MiB")
	if b, err := ReadAll(t.Context(), put(t, packed(t, over))); err != nil || len(b) != most+1 {
		t.Errorf("with more memory: %d bytes, %v", len(b), err)
	}
}

// Nothing is read of a file whose size is known to be too much.
func TestKnownSizeIsRefusedUnread(t *testing.T) {
	path := put(t, nil)
	if err := os.Truncate(path, 6<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Document()); err == nil || !strings.Contains(err.Error(), "more than 80MiB") {
		t.Errorf("%v", err)
	}
	f, err := Open(t.Context(), path, Trace()) // of which a part is worth something
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Bytes(Document()); err == nil {
		t.Error("a document of 6 GiB was read")
	}
	if at, err := f.file.Seek(0, io.SeekCurrent); err != nil || at > 1<<16 {
		t.Errorf("%d bytes were read of it, %v", at, err)
	}
}

// fifo is a pipe that somebody writes into.
func fifo(t testing.TB, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = f.Write(text) // the reader may stop early
			_ = f.Close()
		}
	}()
	return path
}

// A pipe is opened once, looked at, and read from its beginning all the same.
func TestPipe(t *testing.T) {
	text := []byte(strings.Repeat("0123456789", 20_000))
	f, err := Open(t.Context(), fifo(t, text), Document())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if head, err := f.Head(512); err != nil || !bytes.Equal(head, text[:512]) || f.Plain() {
		t.Errorf("%d bytes, %v, plain %v", len(head), err, f.Plain())
	}
	if head := f.Text().Peek(1000); !bytes.Equal(head, text[:1000]) {
		t.Errorf("%d bytes of text", len(head))
	}
	if got, err := f.Bytes(Document()); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	g, err := Open(t.Context(), fifo(t, text), Trace())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Head(512); err != nil {
		t.Fatal(err)
	}
	stored := filepath.Join(t.TempDir(), "copy")
	if err := g.CopyTo(stored); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(stored); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
}

func TestFailed(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]struct {
		kind error
		text string
	}{
		filepath.Join(dir, "none"):            {gpuprof.ErrUsage, "there is no such file; make one"},
		dir:                                   {gpuprof.ErrUsage, "it is a directory"},
		put(t, []byte("\x1f\x8b\x08")):        {gpuprof.ErrInput, "copy it again"},
		put(t, make([]byte, 80<<20+1)):        {gpuprof.ErrInput, "set GPUPROF_MEMORY=2GiB"},
		filepath.Join(put(t, nil), "in-file"): {gpuprof.ErrUsage, "not a directory"},
	} {
		_, err := ReadAll(t.Context(), path)
		named := Failed("reading "+path, err, "make one", "copy it again")
		if !errors.Is(named, want.kind) || !strings.Contains(named.Error(), want.text) || strings.Count(named.Error(), path) != 1 {
			t.Errorf("%v, want %v with %q", named, want.kind, want.text)
		}
	}
	if err := Failed("reading", fs.ErrNotExist, "", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

func FuzzUnfold(f *testing.F) {
	text := []byte(strings.Repeat("some text\n", 100))
	for _, seed := range [][]byte{text, packed(f, text), packedZ(f, text), packed(f, packedZ(f, text)), packed(f, packed(f, text)), {0x28, 0xb5, 0x2f, 0xfd}} {
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		l := Limits{Text: 1 << 20, Memory: 8 << 20, window: leastWindow}
		u := Unfold(bytes.NewReader(stored), l)
		defer u.Close()
		b, err := io.ReadAll(u)
		if int64(len(b)) > l.Text {
			t.Errorf("%d bytes", len(b))
		}
		if _, large := errors.AsType[*TooLarge](err); err != nil && !large && !Damaged(err) {
			t.Errorf("%v", err)
		}
	})
}

func FuzzProfile(f *testing.F) {
	f.Add([]byte{0x32, 0, 0x0a, 4, 8, 1, 16, 1})
	f.Add([]byte{0x12, 0, 0x12, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := ParseProfile(text); err != nil && !Damaged(err) {
			t.Errorf("%v", err)
		}
	})
}
