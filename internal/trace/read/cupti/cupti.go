// Package cupti reads recordings of gpuprof's CUDA recorder (internal/record/inject): one file per process, of
// self-contained chunks, so that a killed process leaves a recording that ends with its last whole chunk.
//
// A file begins with a magic, a version and a mark of its byte order. A chunk has a head of 24 bytes and a payload.
// The head has a mark, the type, the size of a record, the number of records, the bytes, and the time of writing. The
// first chunk names the fields of each type of record with their sizes, so readers take fields by name and accept
// longer records.
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

// Extension ends the names of the recorder's files.
const Extension = ".gpt"

// recordAgain is the fix for an unreadable recording.
const recordAgain = "record one with gpuprof run --cuda -- COMMAND"

// Sniff reports whether a file that begins with head is a recording of this format.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// Read reads a whole recording; path is for messages. A torn or damaged file yields the part before the damage, with
// Truncated set and a warning; an error wraps gpuprof.ErrInput, or the context's. room is the memory budget of the
// trace, bytes; 0 for outside.TraceMemory. Of a larger recording the first part is kept, with Truncated set and a
// warning.
func Read(ctx context.Context, in io.Reader, path string, room int64) (*model.Trace, error) {
	r := newReader(path, model.NewRoom(room))
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
			r.takeChunk(k)
			continue
		}
		if !errors.Is(err, io.EOF) {
			r.torn = err
		}
		break
	}
	return r.finishTrace(c.at)
}
