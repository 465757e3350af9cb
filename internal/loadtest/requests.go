// Package loadtest has the figures of a load test: requests of callers or of a schedule,
// the latencies that they saw, and what their sender hides. In come counts and histograms
// of each process of a run (workloads/serving, internal/latency); out goes the part
// "requests" of run.json. It holds types and small functions on them, and imports the
// standard library only, since the root package holds it in its Run.
package loadtest

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Requests is what the callers of a service saw under load: run.json's requests.
type Requests struct {
	Arrivals string `json:"arrivals"` // the setting: gamma, trace:FILE, closed:N, http:ADDRESS
	// Rate is the scheduled rate in requests per second, 0 where callers wait for answers
	// or come from outside. Runs of different rates do not compare.
	Rate float64 `json:"rate_per_s"`
	// RateKnobs are the knobs that the rate was made of. Two runs at one rate compare
	// whatever these say.
	RateKnobs  []string `json:"rate_knobs"`
	Throughput float64  `json:"throughput_per_s"` // measured at saturation
	SLO        float64  `json:"slo_s"`
	// From says when a latency begins: FromSchedule, FromSend or FromFirstByte.
	From string `json:"latency_from"`
	// Waits says for what the sender of requests waits, which hides from it how long its
	// requests should have taken: "" for nothing, WaitsRoom or WaitsAnswer.
	Waits string `json:"sender_waits_for,omitempty"`

	Processes []Served `json:"processes"` // in the order in which they ran

	// Of all processes together.
	Latency LatencySummary `json:"latency"`
	Queue   LatencySummary `json:"queue_time"`
	Service LatencySummary `json:"service_time"`
	Late    LatencySummary `json:"late"` // of the sender, part of the latency
	// SenderLate says how late the sender was where this makes the tail its own and not the
	// service's: Latency has then no percentile above p50, and none where even p50 is the
	// sender's. The histograms keep all of it. "" where it was in time.
	SenderLate string          `json:"sender_late,omitempty"`
	FromSent   *LatencySummary `json:"from_send,omitempty"` // the latency that a sender which waits for room sees
	Goodput    float64         `json:"goodput_per_s"`       // answers within SLO
	// FloorS is the least latency: that of a request alone at the device's peak rates, its copies among it where
	// their rate is known; 0 where there is none.
	FloorS     float64     `json:"floor_s,omitempty"`
	OnSchedule *OnSchedule `json:"on_schedule,omitempty"`
	// Decode is how long the body of a request from outside took to be decoded, part of Late.
	Decode *LatencySummary `json:"decode_time,omitempty"`
}

// OnSchedule is what requests on a schedule saw behind callers that wait for their answers, as many
// per second as these sent: what they hide. All of it is as in Requests.
type OnSchedule struct {
	Rate       float64        `json:"rate_per_s"`
	Processes  []Served       `json:"processes"`
	Latency    LatencySummary `json:"latency"`
	SenderLate string         `json:"sender_late,omitempty"`
}

// Requests are the same as requests of their own.
func (o *OnSchedule) Requests() *Requests {
	if o == nil {
		return nil
	}
	return &Requests{Rate: o.Rate, From: FromSchedule, Processes: o.Processes, Latency: o.Latency, SenderLate: o.SenderLate}
}

// AsOnSchedule is what callers that wait for their answers have beside theirs; nil of nil.
func (r *Requests) AsOnSchedule() *OnSchedule {
	if r == nil {
		return nil
	}
	return &OnSchedule{Rate: r.Rate, Processes: r.Processes, Latency: r.Latency, SenderLate: r.SenderLate}
}

// When a latency begins.
const (
	FromSchedule  = "schedule"
	FromSend      = "send"
	FromFirstByte = "first-byte"

	WaitsRoom   = "room"
	WaitsAnswer = "answer"
)

// ReasonGenerator is why a run is partial whose sender could not keep its schedule: its
// latencies are the sender's own.
const ReasonGenerator = "generator"

// Served is what one process counted, from the end of the warm-up on.
type Served struct {
	WarmUpS   float64   `json:"warm_up_s"`
	Seconds   float64   `json:"seconds"` // of the stretch
	Scheduled int64     `json:"scheduled"`
	Completed int64     `json:"completed"`
	Refused   int64     `json:"refused"` // by the overload rule
	Expired   int64     `json:"expired"` // of those refused: for their age
	Failed    int64     `json:"failed"`
	FailedFor string    `json:"failed_for,omitempty"` // why the first batch failed that did
	Open      int64     `json:"open"`                 // at the end
	InTime    int64     `json:"in_time"`              // completed within the SLO
	FirstS    float64   `json:"first_s,omitempty"`    // latency of the first request of the process, alone in its batch
	Latency   Recorded  `json:"latency"`
	Queue     Recorded  `json:"queue_time"`
	Service   Recorded  `json:"service_time"`
	Late      Recorded  `json:"late"`
	FromSent  *Recorded `json:"from_send,omitempty"`
	Outside   *Outside  `json:"outside,omitempty"` // where callers came from outside
	// Batches[i] is how many batches held i+1 requests.
	Batches []int64       `json:"batches"`
	Blocks  []ServedBlock `json:"blocks"`
}

// Outside is what is known of callers from outside beside their requests.
type Outside struct {
	// Rejected counts what never became a request, by the HTTP status that it got, or "closed"
	// where the connection ended before or its first lines could not be read.
	Rejected map[string]int64 `json:"rejected,omitempty"`
	Gone     int64            `json:"gone"` // callers that closed their side before the answer, which is counted all the same
	Decode   Recorded         `json:"decode_time"`
	// Recomputed answers, drawn at random, were compared with the network in float64: Error is
	// the largest of ||out-ref|| / ||ref||. Nothing else is known of the images of others.
	Recomputed int      `json:"recomputed"`
	Error      *float64 `json:"relative_error" jsonschema:"null when it is not a number"`
	Tolerance  float64  `json:"tolerance"`
}

// ServedBlock is a part of the stretch.
type ServedBlock struct {
	StartS    float64  `json:"start_s"` // since the load began
	Seconds   float64  `json:"seconds"`
	Completed int64    `json:"completed"`
	Refused   int64    `json:"refused"`
	Failed    int64    `json:"failed"`
	InTime    int64    `json:"in_time"`
	QueueMean float64  `json:"queue_mean"` // requests that waited when a batch began
	QueueMax  int64    `json:"queue_max"`
	Latency   Recorded `json:"latency"`
}

// Recorded is a distribution of times that merges exactly with others.
type Recorded struct {
	Count int64   `json:"count"`
	MeanS float64 `json:"mean_s"` // exact
	MaxS  float64 `json:"max_s"`  // exact
	// HDR is an HdrHistogram of nanoseconds, V2 compressed, in base64.
	HDR string `json:"hdr"`
}

// LatencySummary is a distribution in a few numbers. A percentile that too few requests
// lie beyond is left out, and of latencies one that is the late sender's.
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
	// CI95 is over blocks of one process, or over the processes; null where there are too
	// few of them.
	CI95 *[2]float64 `json:"ci95"`
}

// Metric names a percentile of latencies: latency/p50, latency/p999.
func (p Percentile) Metric() string {
	return "latency/p" + strings.ReplaceAll(strconv.FormatFloat(math.Round(1e6*p.Share)/1e4, 'f', -1, 64), ".", "")
}

// At finds a percentile; false where it is left out.
func (l *LatencySummary) At(share float64) (Percentile, bool) {
	for _, p := range l.Percentiles {
		if p.Share == share {
			return p, true
		}
	}
	return Percentile{}, false
}

// SentLate leaves out of the latency what is a late sender's: the percentiles above p50 and, where all
// is its own, every one. why says how late it was.
func (r *Requests) SentLate(why string, all bool) {
	r.SenderLate = why
	r.Latency.Percentiles = slices.DeleteFunc(r.Latency.Percentiles, func(p Percentile) bool { return all || p.Share > 0.5 })
}

// Told is the largest share of the requests up to which latencies are the service's: 1, 0.5 where the
// sender was late, and 0 where it was later than their median.
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
