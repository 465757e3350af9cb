package record

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// runCUDA runs the program with the CUDA recorder, or without it if the recorder cannot be written.
func runCUDA(ctx context.Context, o *Options, r *Result, s *signals, cupti []string) error {
	r.Recorder = ByCUDA
	in, err := writeInjection(o, cupti)
	if err != nil {
		r.warn("no-recorder", "the program ran without being recorded: "+err.Error(), "choose another folder with -o")
		return runChild(ctx, o, r, s, childOf{args: o.Args, env: o.Env})
	}
	defer in.scratch.Close()
	f := startFollower(ctx, o, in, s)
	err = runChild(ctx, o, r, s, childOf{args: o.Args, env: in.environWithRecorder(o.Env), started: in.noteProgram})
	f.close()
	if o.Rolling {
		keepBest(in.dir)
	}
	r.Idle = o.Idle
	if r.Stopped = s.stopped; err != nil {
		return err
	}
	r.Skip = f.skip
	left, err := f.cutToWindow(ctx)
	if err != nil {
		r.warn("not-cut", err.Error(), "")
	}
	r.CUDA = readCUDA(in.dir)
	r.addCUDA(o, left)
	explainCUDA(o, r)
	return nil
}

// followEvery is the interval between two reads of the recorder's files.
const followEvery = 200 * time.Millisecond

// follower checks, while the program runs, whether the recording is long enough.
type follower struct {
	done chan struct{}
	wg   sync.WaitGroup
	stretch
}

// startFollower starts a goroutine that asks the recorder to stop once the requested steps are recorded. If the program
// shows no steps, it stops the recorder at WindowAfter + Window after the first kernel.
func startFollower(ctx context.Context, o *Options, in *injection, s *signals) *follower {
	f := &follower{done: make(chan struct{}), stretch: newStretch(o, in.dir)}
	ctx, stop := context.WithCancel(ctx)
	f.wg.Go(func() {
		<-f.done
		stop() // cancels the reading of a large recording
	})
	f.wg.Go(func() {
		asked := false
		for {
			select {
			case <-f.done:
				return
			case <-time.After(followEvery):
			}
			switch {
			case o.Idle: // "gpuprof run record" asks instead
				return
			case o.Rolling:
				keepNewest(in.dir)
			case !asked:
				asked = f.isRecorded(ctx, time.Now()) && writeControl(in.dir, controlStop) == nil
			case !o.StopAfter:
				return
			case cudaSettled(readCUDA(in.dir)):
				s.endProgram(f.done)
				return
			}
		}
	})
	return f
}

func (f *follower) close() {
	close(f.done)
	f.wg.Wait()
}

// Layout and chunk types of the recorder's files: see internal/trace/read/cupti.
const (
	chunkHead   = 24
	chunkMark   = 0x68435047
	fileHead    = 16
	chunkKernel = 5
	chunkNVTX   = 9
	chunkEnd    = 14
	chunkGraph  = 15
)

// hasChunk reports whether a recording has a chunk of a wanted type; it reads only chunk heads.
func hasChunk(path string, wanted func(kind uint16) bool) bool {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [chunkHead]byte
	for at := int64(fileHead); ; {
		if _, err := f.ReadAt(head[:], at); err != nil || binary.LittleEndian.Uint32(head[:]) != chunkMark {
			return false
		}
		if wanted(binary.LittleEndian.Uint16(head[4:])) {
			return true
		}
		at += chunkHead + int64(binary.LittleEndian.Uint32(head[12:]))
	}
}

// hasEnd reports whether the recorder has closed a recording: the file then ends with an end chunk.
func hasEnd(path string) bool {
	return hasChunk(path, func(kind uint16) bool { return kind == chunkEnd })
}

func hasKernel(path string) bool {
	return hasChunk(path, func(kind uint16) bool { return kind == chunkKernel || kind == chunkGraph })
}

// addCUDA renames the recorder's files to traces, lists them, and removes files without an event. left is the number of
// records that cutToWindow removed, by file.
func (r *Result) addCUDA(o *Options, left map[string]int64) {
	for i := range r.CUDA {
		p := &r.CUDA[i]
		if p.File == "" {
			continue
		}
		p.LeftOut = left[p.File]
		path := filepath.Join(o.Dir, p.File)
		to := filepath.Join(o.Dir, traceName(path))
		if err := os.Rename(path, to); err != nil {
			to = path
			if taken := findRenamed(o.Dir, p.File); taken != "" { // an earlier call of Window renamed it
				to = taken
			}
		}
		if !hasChunk(to, func(kind uint16) bool { return kind >= chunkKernel && kind <= chunkNVTX || kind == chunkGraph }) {
			_ = os.Remove(to) // the file holds no event
			p.File = ""
			continue
		}
		p.File, p.Bytes = filepath.Base(to), sizeOf(to)
		r.Traces = append(r.Traces, filepath.Join(o.Dir, p.File))
	}
}

// findRenamed returns the trace to which an earlier call of Window renamed a recording, or "".
func findRenamed(dir, file string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(file, "cuda-"), ".gpt")
	for _, pattern := range []string{"trace-" + name + ".gpt", "trace-" + name + "-rank*.gpt"} {
		if found := outside.Dir(dir).Glob(pattern); len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// rankOf returns the rank in the head of a recording, or "".
func rankOf(path string) string {
	_, after, _ := strings.Cut(string(headOf(path)), "\nrank=")
	n := 0
	if rank, _, ok := strings.Cut(after, "\n"); ok {
		if _, err := fmt.Sscanf(rank, "%d", &n); err == nil && n >= 0 && rank == fmt.Sprint(n) {
			return rank
		}
	}
	return ""
}
