package runfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// Check checks, before a measurement, that its result can be written to path: the format is known, the folder is
// writable, and an existing file is gpuprof's or force is set. Otherwise it returns ErrUsage. It leaves no file behind.
func Check(path string, force bool) error {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	target, err := findTarget(path, f, force)
	if err != nil {
		return err
	}
	tmp, err := createTemp(target, 0)
	if err != nil {
		return cannotWrite(path, err)
	}
	name := tmp.Name()
	return errors.Join(tmp.Close(), os.Remove(name))
}

// Write encodes into a temporary file in the folder of path, flushes it and renames it. So path has either the old
// content or the complete new content. Write compresses .gz (except .pb.gz) and .zst, and adds the mark to text
// formats. It wraps an error of encode with the name of the file.
func Write(path string, force bool, encode func(io.Writer) error) error {
	return writeFile(path, force, 0, encode)
}

// WritePrivate is Write for a file that only its owner can read, whatever the mode of a replaced file.
func WritePrivate(path string, force bool, encode func(io.Writer) error) error {
	return writeFile(path, force, 0o600, encode)
}

// writeFile implements Write. mode 0 keeps the mode of a replaced file, or leaves it to the umask.
func writeFile(path string, force bool, mode fs.FileMode, encode func(io.Writer) error) (err error) {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	target, err := findTarget(path, f, force)
	if err != nil {
		return err
	}
	if info, statErr := os.Stat(target); statErr == nil && mode == 0 {
		mode = info.Mode().Perm()
	}
	tmp, err := createTemp(target, mode)
	if err != nil {
		return cannotWrite(path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.removeTemp())
		}
	}()
	if err := encodeInto(tmp, path, f, encode); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return cannotWrite(path, err)
	}
	if err = tmp.Close(); err != nil {
		return cannotWrite(path, err)
	}
	if err = os.Rename(tmp.Name(), target); err != nil {
		return cannotWrite(path, err)
	}
	syncDir(filepath.Dir(target))
	return nil
}

// findTarget follows the symbolic links of path, and returns the target if it may be replaced.
func findTarget(path string, f Format, force bool) (string, error) {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return target, nil
	}
	if err != nil {
		return "", cannotWrite(path, err)
	}
	if !info.Mode().IsRegular() {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: it is there and is not an ordinary file", path).WithFix("give another name")
	}
	if force || info.Size() == 0 {
		return target, nil
	}
	ours, err := writtenByUs(target, f)
	if err != nil {
		return "", cannotWrite(path, err)
	}
	if !ours {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the file is there and was not written by gpuprof", path).WithFix("give another name, or --force to replace it")
	}
	return target, nil
}

func cannotWrite(path string, err error) error {
	return gpuprof.Unwritable("writing "+path, err, "choose another folder with -o", "give a path in a directory that is there and writable")
}

type tempFile struct{ *os.File }

// removeTemp closes and removes the file. After a failed rename the file is closed already, which is no error.
func (t tempFile) removeTemp() error {
	if err := t.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return os.Remove(t.Name())
}

// createTemp makes a hidden file in target's folder. mode 0 leaves the mode to the umask.
func createTemp(target string, mode fs.FileMode) (tempFile, error) {
	owner.Sweep(filepath.Dir(target))
	// Do not include target's name: it may have the maximum length.
	name := filepath.Join(filepath.Dir(target), owner.TempName(owner.Prefix, ".tmp"))
	perm := fs.FileMode(0o666)
	if mode != 0 {
		perm = mode & 0o600 // only the owner can read the file until Chmod sets its mode
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return tempFile{}, err
	}
	t := tempFile{f}
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return tempFile{}, errors.Join(err, t.removeTemp())
		}
	}
	return t, nil
}

// encodeInto encodes into w. It distinguishes an error of writing, as on a full disk, from an error of encode.
func encodeInto(w io.Writer, path string, f Format, encode func(io.Writer) error) error {
	kept := &keeper{w: w}
	switch err := encodeTo(kept, f, encode); {
	case kept.err != nil:
		return cannotWrite(path, kept.err)
	case err != nil:
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// keeper keeps a writer's first error, which an encoder may lose or rephrase.
type keeper struct {
	w   io.Writer
	err error
}

func (k *keeper) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

func encodeTo(w io.Writer, f Format, encode func(io.Writer) error) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	if _, err := io.WriteString(buf, textMarker(f)); err != nil {
		return err
	}
	var out io.WriteCloser = nopCloser{buf}
	switch f.Ext {
	case ".json.gz", ".perfetto.json.gz":
		out = gzip.NewWriter(buf)
	case ".json.zst":
		z, err := zstd.NewWriter(buf)
		if err != nil {
			return err
		}
		out = z
	}
	var text io.Writer = out
	if isLogged(f) {
		text = NewLines(out)
	}
	if err := encode(text); err != nil {
		return errors.Join(err, out.Close()) // frees the compressor's goroutines
	}
	if err := out.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// isLogged reports whether a format is often printed into a build server's log.
func isLogged(f Format) bool {
	return slices.Contains([]string{"table", "markdown", "bench", "csv", "junit"}, f.Name)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// syncDir makes a rename durable, if the file system can. Otherwise a crash may undo the rename, but no file is lost.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
