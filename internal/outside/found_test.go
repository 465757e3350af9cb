package outside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// planted makes one of each kind of file in a folder that is no regular file.
func planted(t *testing.T, dir string) map[string]string {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	listener, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700), os.Symlink("loop", at("loop")), os.Symlink("pipe", at("link")),
		os.Symlink("/dev/zero", at("device")), os.Symlink("nowhere", at("dangling")), os.Symlink("folder", at("linked"))); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"pipe": "it is a named pipe and no regular file", "link": "it is a named pipe and no regular file", "socket": "it is a socket and no regular file",
		"device": "it is a device and no regular file", "folder": "it is a directory", "linked": "it is a directory",
		"loop": "too many levels of symbolic links", "dangling": "no such file or directory", "none": "no such file or directory",
	}
}

// What is found in a folder and is no regular file is refused by its kind, without waiting
// for a writer, whichever function reads it.
func TestFound(t *testing.T) {
	dir := t.TempDir()
	for name, want := range planted(t, dir) {
		path := filepath.Join(dir, name)
		_, found := ReadFound(path)
		_, opened := OpenRegular(path, os.O_RDONLY, 0)
		_, inFolder := fs.ReadFile(Dir(dir), name)
		for how, err := range map[string]error{"found": found, "opened": opened, "in a folder": inFolder, "checked": CheckRegular(path)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
		if name != "none" && name != "dangling" {
			if f, err := OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
				t.Errorf("%s is opened for writing", f.Name())
			}
		}
	}
	text, err := ReadFound(put(t, packed(t, []byte("text"))))
	if err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// The listings of a folder have no more entries than memory has room for, and links in it
// lead nowhere.
func TestFolderBounded(t *testing.T) {
	t.Setenv(MemoryVariable, "1MiB")
	most := int(DocumentMemory() / entryMemory)
	dir := t.TempDir()
	below := filepath.Join(dir, "a")
	if err := errors.Join(os.Mkdir(below, 0o700), os.Symlink("..", filepath.Join(below, "up"))); err != nil {
		t.Fatal(err)
	}
	for i := range most - 2 {
		if err := os.WriteFile(filepath.Join(below, fmt.Sprintf("%04d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	walk := func() (entries int, err error) {
		return entries, fs.WalkDir(Dir(dir), ".", func(_ string, _ fs.DirEntry, err error) error {
			entries++
			return err
		})
	}
	if n, err := walk(); err != nil || n != most+1 { // and the folder itself
		t.Errorf("%d entries, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "one"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := walk()
	if large, is := errors.AsType[*TooLarge](err); !is || !strings.Contains(large.Error(), "it holds more than 2048 files and folders") || !strings.Contains(large.Error(), "give a smaller folder") {
		t.Errorf("%v", err)
	}
	if found := Dir(dir).Glob("o*"); len(found) != 1 || found[0] != filepath.Join(dir, "one") {
		t.Errorf("%v", found)
	}
}

// Waiting for a pipe that the user named ends with the context: for its writer, and for what
// that does not write.
func TestWaitingEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error)
	go func() {
		_, err := Open(ctx, path, Document())
		opened <- err
	}()
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Errorf("opening: %v", err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel = context.WithCancel(t.Context())
	f, err := Open(ctx, path, Document())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := writer.WriteString("beginning"); err != nil {
		t.Fatal(err)
	}
	if head, err := f.Head(9); err != nil || string(head) != "beginning" {
		t.Errorf("%q, %v", head, err)
	}
	read := make(chan error)
	go func() {
		_, err := f.Bytes(Document())
		read <- err
	}()
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	if err := Failed("reading x", context.Canceled, "", ""); err.Error() != "reading x: interrupted" || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// frame is a frame that a decoder skips, number 0 to 15.
func frame(number byte, content []byte) []byte {
	n := len(content)
	return append([]byte{0x50 + number, 0x2a, 0x4d, 0x18, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}, content...)
}

// Frames that zstd skips may stand before, between and behind the others, and members of
// gzip may be empty.
func TestSkippableFrames(t *testing.T) {
	text := []byte(strings.Repeat("some text\n", 1000))
	z := packedZ(t, text)
	for name, stored := range map[string][]byte{
		"first":          append(frame(0, []byte("about")), z...),
		"empty":          append(frame(15, nil), z...),
		"several":        bytes.Join([][]byte{frame(1, []byte("a")), frame(2, make([]byte, 70_000)), z}, nil),
		"between":        bytes.Join([][]byte{packedZ(t, text[:100]), frame(3, []byte("b")), packedZ(t, text[100:])}, nil),
		"last":           append(bytes.Clone(z), frame(4, []byte("c"))...),
		"inside gzip":    packed(t, append(frame(5, []byte("d")), z...)),
		"empty gzip":     append(packed(t, nil), packed(t, text)...),
		"gzip in frames": append(frame(6, []byte("e")), packedZ(t, packed(t, text))...),
	} {
		got, err := ReadAll(t.Context(), put(t, stored))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := ReadAll(t.Context(), put(t, frame(0, []byte("cut"))[:9])); !Damaged(err) {
		t.Errorf("a cut frame: %v", err)
	}
}

// A file of frames without content, as large as it may be, is not read to its end.
func TestSkippedIsBounded(t *testing.T) {
	t.Setenv(MemoryVariable, "1MiB")
	most := int(Document().storedLimit())
	for name, one := range map[string][]byte{"zstd": frame(0, make([]byte, 1<<16)), "gzip": packed(t, nil)} {
		in := &endless{one: one}
		text := Unfold(in, Document())
		n, err := text.Read(make([]byte, 1))
		if _, large := errors.AsType[*TooLarge](err); n != 0 || !large {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if in.read > most+2<<16 {
			t.Errorf("%s: %d bytes were read, of which %d may be", name, in.read, most)
		}
		text.Close()
	}
}

// endless repeats some bytes.
type endless struct {
	one      []byte
	at, read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.one[e.at:])
	e.at = (e.at + n) % len(e.one)
	e.read += n
	return n, nil
}
