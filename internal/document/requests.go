package document

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// renewRequests takes the tail of a late sender out of the latencies of a run before schema
// 1.8, which has the warning alone.
func renewRequests(r *gpuprof.Run) {
	q := r.Requests
	if q == nil || q.SenderLate != "" || q.OnSchedule != nil { // what is on a schedule has its own
		return
	}
	i := slices.IndexFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == "generator-late" })
	if i < 0 {
		return
	}
	q.SentLate(r.Warnings[i].Text, strings.HasSuffix(r.Reason, loadtest.ReasonGenerator)) // of a process, with its number before
}
