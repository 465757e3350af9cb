// Package cupti reads what gpuprof's CUDA recorder writes (internal/record/inject): one file a
// process, of chunks that are complete by themselves, so that a killed process leaves a
// recording that ends with its last whole chunk.
//
// A file begins with a magic, a version and a mark of its byte order. A chunk is 24 bytes
// and its payload: a mark, the type, the size of a record, how many there are, bytes, and
// when it was written. The first chunk names the fields of each type of record with their
// sizes, so readers take fields by name and bear with longer records.
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

// Extension is how the recorder's files end.
const Extension = ".gpt"

// again says how to record.
const again = "record one with gpuprof run --cuda -- COMMAND"

// Sniff reports whether a file that begins with head is such a recording.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// Read reads a whole recording; path is for messages. What a torn or damaged file still
// holds is returned with Truncated set and a warning; an error is gpuprof.ErrInput, or the
// context's. room is the memory that the trace may take, bytes; 0 for outside.TraceMemory.
// Of a recording with more the first part is kept, with Truncated set and a warning.
func Read(ctx context.Context, in io.Reader, path string, room int64) (*model.Trace, error) {
	r := newReader(path, model.NewRoom(room))
	c, err := newChunks(in)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix(again)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading trace %s: %w", path, context.Cause(ctx))
		}
		k, err := c.next()
		if err == nil {
			r.take(k)
			continue
		}
		if !errors.Is(err, io.EOF) {
			r.torn = err
		}
		break
	}
	return r.finish(c.at)
}
