package runfile

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Read reads the runs of a .json, .json.gz or .json.zst file, or of a pipe of any name; ctx ends the wait for a pipe. A
// missing file or another extension is ErrUsage. A file that cannot be decoded, is too large or has a newer major
// version is ErrInput.
func Read(ctx context.Context, path string) ([]*gpuprof.Run, error) {
	text, err := Text(ctx, path)
	if err != nil {
		return nil, err
	}
	return document.Runs(text, path)
}

// ReadOwn reads a file of any size that this program has just written.
func ReadOwn(path string) ([]*gpuprof.Run, error) {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, gpuprof.Errorf(nil, "reading back the run %s: %w", path, err).WithFix("check the disk")
	}
	return document.OwnRuns(text, path)
}

// Text returns the text of a .json, .json.gz or .json.zst file, or of a pipe. It has the errors of Read, except
// decoding errors.
func Text(ctx context.Context, path string) ([]byte, error) {
	l := outside.Document()
	f, err := outside.Open(ctx, path, l)
	if err == nil {
		defer f.Close()
	}
	if err == nil && f.Plain() { // a pipe has no extension
		if err := checkReadable(path); err != nil {
			return nil, err
		}
	}
	var text []byte
	if err == nil {
		text, err = f.Bytes(l)
	}
	if err != nil {
		name := path
		if checkReadable(path) != nil {
			name = "run.json"
		}
		return nil, outside.Failed("reading run "+path, err, "write one with gpuprof run WORKLOAD -o "+name, "the file is damaged: write it again with gpuprof run")
	}
	return text, nil
}

// checkReadable refuses names of files that cannot have runs.
func checkReadable(path string) error {
	if f, err := FormatOf(path); err == nil && isReadable(f) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading run %s: runs are kept as .json, .json.gz or .json.zst", path).WithFix("give the file written by gpuprof run -o RUN.json")
}
