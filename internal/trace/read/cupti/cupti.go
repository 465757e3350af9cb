// Package cupti reads recordings of gpuprof's CUDA recorder (internal/record/inject). There is one file per process.
// It consists of self-contained chunks, so that the recording of a killed process is readable up to its last complete
// chunk.
//
// A file begins with a magic, a version and a byte-order mark. A chunk has a head of 24 bytes (mark, type, record
// size, number of records, bytes, time of writing) and a payload. The first chunk names the fields of each record
// type with their sizes: readers find fields by name and accept longer records.
package cupti

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	magic     = "gpuprof\x1a"
	headBytes = len(magic) + 8
	version   = 1
	byteOrder = 0x01020304
)

// Extension is the file name extension of recordings.
const Extension = ".gpt"

// recordAgain is the fix for an unreadable recording.
const recordAgain = "record one with gpuprof run --cuda -- COMMAND"

// Sniff reports whether a file that begins with head is a recording of gpuprof's CUDA recorder.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// Read reads a recording; path is for messages. A damaged file yields the part before the damage, with Truncated set
// and a warning. So does a recording that exceeds the memory budget room (bytes, 0 for outside.TraceMemory). Errors
// wrap gpuprof.ErrInput or the context's error.
func Read(ctx context.Context, in io.Reader, path string, room int64) (*model.Trace, error) {
	r := newReader(path, model.NewMemoryBudget(room))
	c, err := newChunks(in)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix(recordAgain)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading trace %s: %w", path, context.Cause(ctx))
		}
		k, err := c.next()
		if err == nil {
			r.readChunk(k)
			continue
		}
		if !errors.Is(err, io.EOF) {
			r.torn = err
		}
		break
	}
	return r.finishTrace(c.at)
}
