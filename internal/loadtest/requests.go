// Package loadtest defines the figures of a load test: requests of a schedule or of callers, their latencies, and the
// sender's lateness. They come from the counts and histograms of each process (workloads/serving, internal/latency),
// and are the part "requests" of run.json. The package imports only the standard library, since the root package's Run
// contains its types.
package loadtest

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Requests holds a load test of a service: run.json's requests.
type Requests struct {
	Arrivals string `json:"arrivals"` // the knob arrivals: gamma, trace:FILE, closed:N, http:ADDRESS
	// Rate is the scheduled rate, 1/s; 0 for closed loops and external callers. Runs of different rates cannot be
	// compared.
	Rate float64 `json:"rate_per_s"`
	// RateKnobs names the options that set the rate. Runs of an equal rate can be compared even if these options
	// differ.
	RateKnobs  []string `json:"rate_knobs"`
	Throughput float64  `json:"throughput_per_s"` // at saturation
	SLO        float64  `json:"slo_s"`
	// From is the event at which a latency starts: FromSchedule, FromSend or FromFirstByte.
	From string `json:"latency_from"`
	// Waits is the event for which a closed-loop sender waits before it sends, which hides latency: WaitsRoom,
	// WaitsAnswer or "".
	Waits string `json:"sender_waits_for,omitempty"`

	Processes []Served `json:"processes"` // in the order in which they ran

	// Summaries over all processes: the whole latency, its parts in the queue and in the service, and the sender's delay.
	Latency LatencySummary `json:"latency"`
	Queue   LatencySummary `json:"queue_time"`
	Service LatencySummary `json:"service_time"`
	Late    LatencySummary `json:"late"` // lateness of the sender, part of Latency
	// SenderLate describes a sender so late that it determines the tail; "" if it was in time. Latency then has no
	// percentile above p50, and none at all if the sender also determines p50. The histograms stay complete.
	SenderLate string          `json:"sender_late,omitempty"`
	FromSent   *LatencySummary `json:"from_send,omitempty"` // latency as a closed-loop sender measures it
	Goodput    float64         `json:"goodput_per_s"`       // answers within the SLO
	// FloorS is a lower bound of the latency: the time of one request whose kernels reach the device's peak rates and
	// whose copies reach the known copy rates; 0 if unknown.
	FloorS     float64     `json:"floor_s,omitempty"`
	OnSchedule *OnSchedule `json:"on_schedule,omitempty"`
	// Decode is the time to decode the bodies of external requests, part of Late.
	Decode *LatencySummary `json:"decode_time,omitempty"`
}

// OnSchedule has the requests that were sent on a schedule, at the rate that a closed loop had reached. They show the
// latency that the loop hides.
type OnSchedule struct {
	Rate       float64        `json:"rate_per_s"`
	Processes  []Served       `json:"processes"`
	Latency    LatencySummary `json:"latency"`
	SenderLate string         `json:"sender_late,omitempty"`
}

// Requests returns the scheduled requests of a closed-loop result as a Requests; nil for nil.
func (o *OnSchedule) Requests() *Requests {
	if o == nil {
		return nil
	}
	return &Requests{Rate: o.Rate, From: FromSchedule, Processes: o.Processes, Latency: o.Latency, SenderLate: o.SenderLate}
}

// AsOnSchedule returns scheduled requests in the form in which a closed-loop result contains them; nil for nil.
func (r *Requests) AsOnSchedule() *OnSchedule {
	if r == nil {
		return nil
	}
	return &OnSchedule{Rate: r.Rate, Processes: r.Processes, Latency: r.Latency, SenderLate: r.SenderLate}
}

// Values of Requests.From, and of Requests.Waits.
const (
	FromSchedule  = "schedule"   // the scheduled time of the request
	FromSend      = "send"       // the time at which the request was sent
	FromFirstByte = "first-byte" // the arrival of the request's first byte

	WaitsRoom   = "room"   // room in the queue
	WaitsAnswer = "answer" // the answer to the previous request
)

// ReasonGenerator is the reason of a partial run whose sender missed its schedule, and so determined the latencies.
const ReasonGenerator = "generator"

// Served has the counts of one process, after the warm-up.
type Served struct {
	WarmUpS   float64   `json:"warm_up_s"`
	Seconds   float64   `json:"seconds"` // duration of the measurement window
	Scheduled int64     `json:"scheduled"`
	Completed int64     `json:"completed"`
	Refused   int64     `json:"refused"` // by the overload rule
	Expired   int64     `json:"expired"` // of Refused: requests that were too old
	Failed    int64     `json:"failed"`
	FailedFor string    `json:"failed_for,omitempty"` // error of the first failed batch
	Open      int64     `json:"open"`                 // unanswered at the end
	InTime    int64     `json:"in_time"`              // completed within the SLO
	FirstS    float64   `json:"first_s,omitempty"`    // latency of the process's first request, alone in its batch
	Latency   Recorded  `json:"latency"`
	Queue     Recorded  `json:"queue_time"`
	Service   Recorded  `json:"service_time"`
	Late      Recorded  `json:"late"`
	FromSent  *Recorded `json:"from_send,omitempty"`
	Outside   *Outside  `json:"outside,omitempty"` // for external callers only
	// Batches[i] is the number of batches with i+1 requests.
	Batches []int64       `json:"batches"`
	Blocks  []ServedBlock `json:"blocks"`
}

// Outside has further counts for external callers.
type Outside struct {
	// Rejected counts connections without a valid request, by HTTP status, or as "closed" if the connection ended early
	// or its first lines were unreadable.
	Rejected map[string]int64 `json:"rejected,omitempty"`
	Gone     int64            `json:"gone"` // callers that closed the connection before the answer, which still counts
	Decode   Recorded         `json:"decode_time"`
	// Recomputed is the number of randomly chosen answers that were recomputed in float64. Error is their largest
	// ||out-ref|| / ||ref||. Answers to external images have no other check.
	Recomputed int      `json:"recomputed"`
	Error      *float64 `json:"relative_error" jsonschema:"null when it is not a number"`
	Tolerance  float64  `json:"tolerance"`
}

// ServedBlock is a part of the measurement window.
type ServedBlock struct {
	StartS    float64  `json:"start_s"` // since the start of the load
	Seconds   float64  `json:"seconds"`
	Completed int64    `json:"completed"`
	Refused   int64    `json:"refused"`
	Failed    int64    `json:"failed"`
	InTime    int64    `json:"in_time"`
	QueueMean float64  `json:"queue_mean"` // mean number of waiting requests at the start of a batch
	QueueMax  int64    `json:"queue_max"`
	Latency   Recorded `json:"latency"`
}

// Recorded is a distribution of times that can be merged exactly.
type Recorded struct {
	Count int64   `json:"count"`
	MeanS float64 `json:"mean_s"` // exact
	MaxS  float64 `json:"max_s"`  // exact
	// HDR is an HdrHistogram of nanoseconds, V2 compressed, in base64.
	HDR string `json:"hdr"`
}

// LatencySummary summarises a distribution. It omits percentiles that too few requests, or a late sender, determine.
type LatencySummary struct {
	Count       int64        `json:"count"`
	MeanS       float64      `json:"mean_s"`
	MaxS        float64      `json:"max_s"`
	Percentiles []Percentile `json:"percentiles"`
}

// Percentile is the time within which a share of the requests was answered.
type Percentile struct {
	Share float64 `json:"share"` // 0.99
	S     float64 `json:"s"`
	// CI95 is estimated from the blocks of one process, or from the processes; null with too few of them.
	CI95 *[2]float64 `json:"ci95"`
}

// Metric returns the name of a latency percentile: latency/p50, latency/p999.
func (p Percentile) Metric() string {
	return "latency/p" + strings.ReplaceAll(strconv.FormatFloat(math.Round(1e6*p.Share)/1e4, 'f', -1, 64), ".", "")
}

// At returns a percentile; false if it was omitted.
func (l *LatencySummary) At(share float64) (Percentile, bool) {
	for _, p := range l.Percentiles {
		if p.Share == share {
			return p, true
		}
	}
	return Percentile{}, false
}

// SentLate removes the latency percentiles that a late sender determines: all if all is set, otherwise those above p50.
// why describes the sender.
func (r *Requests) SentLate(why string, all bool) {
	r.SenderLate = why
	r.Latency.Percentiles = slices.DeleteFunc(r.Latency.Percentiles, func(p Percentile) bool { return all || p.Share > 0.5 })
}

// Told returns the largest percentile, as a share, that the service determines and not the sender. It is 1 if the
// sender was in time, 0.5 if a late sender determines the percentiles above p50, and 0 if it determines p50 too.
func (r *Requests) Told() float64 {
	if r.SenderLate == "" {
		return 1
	}
	if _, known := r.Latency.At(0.5); known {
		return 0.5
	}
	return 0
}

// Sum adds up the counts of the processes.
func (r *Requests) Sum() Served {
	var out Served
	for i := range r.Processes {
		p := &r.Processes[i]
		out.Seconds, out.WarmUpS = out.Seconds+p.Seconds, out.WarmUpS+p.WarmUpS
		out.Scheduled, out.Completed = out.Scheduled+p.Scheduled, out.Completed+p.Completed
		out.Refused, out.Expired = out.Refused+p.Refused, out.Expired+p.Expired
		out.Failed, out.Open, out.InTime = out.Failed+p.Failed, out.Open+p.Open, out.InTime+p.InTime
		for len(out.Batches) < len(p.Batches) {
			out.Batches = append(out.Batches, 0)
		}
		for i, n := range p.Batches {
			out.Batches[i] += n
		}
	}
	return out
}
