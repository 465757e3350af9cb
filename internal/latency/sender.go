package latency

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

const (
	// lateShare is the p99 of the sender's lateness, in median latencies, from which it distorts the measured tail.
	lateShare = 0.05
	// bunched is the number of requests due during the sender's lateness above which the sender sends bursts, if the
	// lateness also exceeds a batch's duration. With a long queue the median latency is large, so that lateShare does
	// not detect these bursts.
	bunched = 10
)

// judgeSender records that a sender was so late that it determines the tail (coordinated omission). It removes the
// affected percentiles of the latency: those above p50, and p50 too if p99 of the lateness exceeds the median latency.
// One late process suffices, since it determines the common tail. Closed-loop senders have no schedule, and external
// senders are not judged.
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
		text, worse := describeLateness(&parts[0], &parts[1], &parts[2], r.Rate)
		if text != "" && (why == "" || worse && !own) {
			why, own = text, worse
		}
	}
	if why != "" {
		r.SentLate(why, own)
	}
	return nil
}

// describeLateness describes a late sender; "" if it was in time. own reports that p99 of its lateness exceeds the
// median latency. rate is in requests per second.
func describeLateness(all, service, sender *loadtest.LatencySummary, rate float64) (text string, own bool) {
	median, known := all.At(0.5)
	if !known || sender.Count == 0 {
		return "", false
	}
	late, known := sender.At(0.99)
	was := fmt.Sprintf("the sender of the requests was %s late at p99", gpuprof.FormatSeconds(late.S))
	if !known { // too few requests for a percentile: use the maximum
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
