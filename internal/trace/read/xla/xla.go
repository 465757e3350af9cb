// Package xla reads traces of XLA's profiler for JAX and TensorFlow: an XSpace (.xplane.pb) and its Chrome trace
// (.trace.json.gz).
//
// Both consist of planes, one for the host and one per device, with a line for each thread or stream. Runtime calls
// and device operations share correlation ids. Lines that XLA derives from others (modules, steps) are skipped.
package xla

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// recordAgain is the fix for an unreadable trace.
const recordAgain = "record one with jax.profiler.trace (docs/analyze.md)"

var planeNames = lazyregexp.New(`"name"\s*:\s*"/(host:CPU|device:(GPU|TPU|CPU):\d+)`)

// IsTrace reports whether a text that begins with head is an XLA trace.
func IsTrace(head []byte) bool { return isXSpace(head) || isJSON(head) }

func isJSON(head []byte) bool {
	text := bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"traceEvents"`)) && planeNames.Match(text)
}

// Read reads one trace and finishes it (model.Trace.Finish). text is the whole file; path is for messages. Errors
// wrap gpuprof.ErrInput, a TooLarge if the events exceed the budget room (bytes, 0 for outside.TraceMemory), or the
// context's error.
func Read(ctx context.Context, text []byte, path string, room int64) (*model.Trace, error) {
	if room <= 0 {
		room = outside.TraceMemory()
	}
	c := newConverter(path, room)
	var err error
	if isXSpace(text) {
		err = c.readSpace(ctx, text)
	} else {
		err = c.readJSON(ctx, text)
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("reading trace %s: %w", path, context.Cause(ctx))
	case c.isOver():
		return nil, gpuprof.Unreadable("reading trace "+path, &outside.TooLarge{What: "its events take more than " + outside.MemoryText(room), Memory: room}, "")
	case err != nil && len(c.t.Host)+len(c.t.GPU) == 0:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix(recordAgain)
	case len(c.t.Host)+len(c.t.GPU) == 0:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: its planes hold no events of a host or a GPU", path).WithFix(recordAgain)
	case err != nil:
		c.t.Truncated = true
		c.t.Warn("truncated", fmt.Sprintf("the file could not be read to its end (%v); the part before that is analysed", err), "record it again")
	}
	c.costKernels()
	c.dropControlFlow()
	c.t.Finish()
	return c.t, nil
}
