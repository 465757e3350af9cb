package runfile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
)

// maxRunBytes bounds what a compressed file may unfold to. A million samples
// take 30 MB; a file past this bound is damaged or was made to harm.
const maxRunBytes = 4 << 30

// Read reads the runs of a .json, .json.gz or .json.zst file. A file that is
// not there, or of another extension, is ErrUsage; one that cannot be
// decoded, or of a newer major version, is ErrInput.
func Read(path string) ([]*gpuprof.Run, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	runs, err := gpuprof.DecodeRuns(r, path)
	if err != nil && !errors.Is(err, gpuprof.ErrInput) {
		return nil, damaged(path, err) // the compressed stream broke off
	}
	return runs, err
}

// Open opens a .json, .json.gz or .json.zst file, of a run or another document,
// and unfolds it. Errors are those of Read.
func Open(path string) (io.ReadCloser, error) {
	f, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	if !readable(f) {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading run %s: runs are kept as .json, .json.gz or .json.zst, not %s; give the file written by gpuprof run -o RUN.json", path, f.Ext)
	}
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading run %s: there is no such file; write one with gpuprof run WORKLOAD -o %s", path, path)
		}
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading run %s: %w; give a readable file", path, errors.Unwrap(err))
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		_ = file.Close() // only opened
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading run %s: it is a directory; give a file written by gpuprof run", path)
	}
	r, done, err := unfold(file, f)
	if err != nil {
		_ = file.Close() // only opened
		return nil, damaged(path, err)
	}
	return &unfolded{io.LimitReader(r, maxRunBytes), done, file}, nil
}

// unfolded is a file with what decompresses it.
type unfolded struct {
	io.Reader
	done func()
	file *os.File
}

// Close implements io.Closer.
func (u *unfolded) Close() error {
	u.done()
	return u.file.Close()
}

func damaged(path string, err error) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading run %s: %w; the file is damaged: write it again with gpuprof run", path, err)
}

// unfold decompresses by extension. A plain file under a compressed name, as
// some download tools leave it, is read as it is.
func unfold(r io.Reader, f Format) (out io.Reader, done func(), err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, _ := b.Peek(1)
	if f.Ext == ".json" || len(head) == 1 && (head[0] == '{' || head[0] == '[') {
		return b, func() {}, nil
	}
	if strings.HasSuffix(f.Ext, ".gz") {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil
	}
	z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}
