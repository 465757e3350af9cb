package cupti

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// ReadSince reads the last stretch ns of a growing recording, up to its last complete chunk. at is the time at which
// that chunk was written, ns of the machine's clock. From the earlier part, ReadSince reads only names, devices and
// other tables that events refer to. The trace is nil without events. path is for messages.
func ReadSince(ctx context.Context, in io.ReaderAt, path string, stretch int64) (t *model.Trace, at int64, err error) {
	head := make([]byte, headBytes)
	if _, err := in.ReadAt(head, 0); err != nil || !Sniff(head) {
		return nil, 0, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: it is no recording of gpuprof", path).WithFix(recordAgain)
	}
	all := listChunks(in)
	if len(all) == 0 {
		return nil, 0, nil
	}
	at = all[len(all)-1].at
	r := newReader(path, model.NewMemoryBudget(0))
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return nil, at, fmt.Errorf("reading trace %s: %w", path, context.Cause(ctx))
		}
		switch p.kind {
		case tKernel, tCopy, tFill, tGraph, tCall, tNVTX, tOverhead:
			if p.at < at-stretch {
				continue
			}
		}
		p.payload = make([]byte, p.size)
		if _, err := in.ReadAt(p.payload, p.offset); err != nil {
			break // the file was shortened
		}
		r.readChunk(p.chunk)
	}
	if len(r.t.Host)+len(r.t.GPU)+len(r.events) == 0 {
		return nil, at, nil
	}
	r.ended = true // a growing recording has no end yet, which is no fault
	t, err = r.finishTrace(at)
	return t, at, err
}

type chunkPlace struct {
	chunk
	offset int64
	size   int
}

// listChunks returns the complete chunks of a file. It reads only their heads.
func listChunks(in io.ReaderAt) (out []chunkPlace) {
	var head [chunkHead]byte
	for at := int64(headBytes); ; {
		if n, _ := in.ReadAt(head[:], at); n < chunkHead || binary.LittleEndian.Uint32(head[:]) != chunkMark {
			return out
		}
		k := parseChunkHead(head[:])
		size := int(le.Uint32(head[12:]))
		if size > mostBytes || at > math.MaxInt64-mostBytes {
			return out
		}
		at += chunkHead
		if size > 0 { // the last chunk may be incomplete, although each is written at once
			if n, _ := in.ReadAt(head[:1], at+int64(size)-1); n < 1 {
				return out
			}
		}
		out = append(out, chunkPlace{k, at, size})
		at += int64(size)
	}
}
