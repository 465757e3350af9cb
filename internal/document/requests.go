package document

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// renewRequests removes latency percentiles that a late sender determined (coordinated omission) from a run before
// schema 1.8.
func renewRequests(r *gpuprof.Run) {
	q := r.Requests
	if q == nil || q.SenderLate != "" || q.OnSchedule != nil { // runs with a schedule record the sender's delay
		return
	}
	i := slices.IndexFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == "generator-late" })
	if i < 0 {
		return
	}
	q.SentLate(r.Warnings[i].Text, strings.HasSuffix(r.Reason, loadtest.ReasonGenerator)) // the text names the process
}
