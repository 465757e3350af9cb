package latency

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

const (
	// A sender whose lateness is more than this share of the median latency at p99 is part
	// of the tail that it measures.
	lateShare = 0.05
	// One that is later than a batch takes, and by more requests than this, sends them at once. Where a queue has grown,
	// the median latency is long and hides it.
	bunched = 10
)

// judgeSender says where the sender was so late that the tail is its own, and takes out of the
// latency what is: the percentiles above p50, and p50 too where p99 of the lateness is above it.
// One late process of several is enough, as the tail of all is then its. A sender that waits for
// room or answers has no schedule, and one from outside is not ours.
func judgeSender(r *loadtest.Requests) error {
	r.SenderLate = ""
	if r.From != loadtest.FromSchedule || r.Waits != "" {
		return nil
	}
	why, own := "", false
	for i := range r.Processes {
		p := &r.Processes[i]
		var parts [3]loadtest.LatencySummary
		for k, rec := range []loadtest.Recorded{p.Latency, p.Service, p.Late} {
			h, err := Decode(rec)
			if err != nil {
				return err
			}
			parts[k] = Summary(h, []*Histogram{h}, nil, 0)
		}
		text, worse := lateness(&parts[0], &parts[1], &parts[2], r.Rate)
		if text != "" && (why == "" || worse && !own) {
			why, own = text, worse
		}
	}
	if why != "" {
		r.SentLate(why, own)
	}
	return nil
}

// lateness says how late a sender was, "" where it was in time; own, that p99 of it is above the
// median latency.
func lateness(all, service, sender *loadtest.LatencySummary, rate float64) (text string, own bool) {
	median, known := all.At(0.5)
	if !known || sender.Count == 0 {
		return "", false
	}
	late, known := sender.At(0.99)
	was := fmt.Sprintf("the sender of the requests was %s late at p99", gpuprof.FormatSeconds(late.S))
	if !known { // too few for a percentile: the latest
		late.S = sender.MaxS
		was = fmt.Sprintf("requests were sent up to %s late", gpuprof.FormatSeconds(late.S))
	}
	if late.S > lateShare*median.S {
		return fmt.Sprintf("%s, %.0f %% of the median latency of %s, and this is part of every latency",
			was, 100*late.S/median.S, gpuprof.FormatSeconds(median.S)), late.S > median.S
	}
	if batch, served := service.At(0.5); served && late.S > batch.S && late.S*rate > bunched {
		return fmt.Sprintf("%s, in which %.0f requests fall due and a batch takes %s, so that they came at once and waited longer than they should have",
			was, late.S*rate, gpuprof.FormatSeconds(batch.S)), false
	}
	return "", false
}
