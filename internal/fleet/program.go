package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Program is the payload of a rank that ran a user's program: its outcome, and the collectives of its traces. The
// traces stay in Folder.
type Program struct {
	gpuprof.Head
	Command  []string              `json:"command"` // with secrets masked
	Started  time.Time             `json:"started"`
	WallS    float64               `json:"wall_s"`
	ExitCode int                   `json:"exit_code"`
	Signal   string                `json:"signal,omitempty"`  // the signal that ended it
	Stopped  bool                  `json:"stopped,omitempty"` // by gpuprof, on request
	Folder   string                `json:"folder"`            // of the recording
	Warnings []gpuprof.Warning     `json:"warnings"`
	Lacks    string                `json:"lacks,omitempty"` // why there are no collectives
	Traces   []analyze.Collectives `json:"traces"`          // one per rank: a process may start several
}

func (r *Report) addPrograms(job *Job) {
	var lines []*timeline
	lacks := map[string][]int{}
	objects := job.objectsOf(document.Program)
	read := make([]programRead, len(objects))
	parallelFor(len(objects), func(i int) { read[i] = readProgram(objects[i]) })
	for i, obj := range objects {
		p := &read[i].Program
		if err := read[i].err; err != nil {
			r.leaveOut(obj, err.Error())
			continue
		}
		if r.Command == nil {
			r.Command = p.Command
		}
		r.Recordings = append(r.Recordings, Recording{Rank: obj.Rank, Node: obj.Node, ExitCode: p.ExitCode, Signal: p.Signal, WallS: gpuprof.Number(p.WallS), Folder: p.Folder})
		if p.ExitCode != 0 && !p.Stopped {
			why := fmt.Sprintf("ended with exit code %d", p.ExitCode)
			if p.Signal != "" {
				why = "was ended by a signal (" + p.Signal + ")"
			}
			r.leaveOut(obj, fmt.Sprintf("rank %d: its program %s; its recording is in %s", obj.Rank, why, p.Folder))
		}
		if p.Lacks != "" {
			lacks[p.Lacks] = append(lacks[p.Lacks], obj.Rank)
		}
		for _, t := range read[i].traces {
			switch {
			case t.err != nil:
				r.leaveOut(obj, fmt.Sprintf("reading %s: %s", obj.name, t.err))
			case t.line.rank < 0:
				r.Notes = append(r.Notes, fmt.Sprintf("%s of rank %d does not name its rank, so it is left out of the search for a straggler", t.name, obj.Rank))
			case slices.ContainsFunc(lines, func(o *timeline) bool { return o.rank == t.line.rank }):
				r.Notes = append(r.Notes, fmt.Sprintf("%s is another trace of rank %d: the first one is used", t.name, t.line.rank))
			default:
				lines = append(lines, t.line)
			}
		}
	}
	for why, ranks := range lacks {
		r.Notes = append(r.Notes, fmt.Sprintf("nothing is known of the communication of %s: %s", RanksText(ranks), why))
	}
	slices.SortFunc(lines, func(a, b *timeline) int { return a.rank - b.rank })
	r.findStragglers(lines)
}

// programRead is a decoded program. Its traces are timelines, which take less memory than the columns.
type programRead struct {
	Program
	err    error
	traces []traceRead
}

type traceRead struct {
	name string
	line *timeline
	err  error
}

func readProgram(obj *Object) programRead {
	var p programRead
	p.err = document.Decode(obj.Payload, obj.name, &p.Program, document.Program)
	obj.Payload = nil // free the text: a job of many ranks is large
	if p.err != nil {
		return p
	}
	for i := range p.Traces {
		c := &p.Traces[i]
		rank := c.Rank
		if rank < 0 && len(p.Traces) == 1 {
			rank = obj.Rank
		}
		l, err := newTimeline(c, rank, obj.Node)
		if err == nil {
			l.job = obj.Job
		}
		p.traces = append(p.traces, traceRead{c.Trace, l, err})
	}
	p.Traces = nil
	return p
}
