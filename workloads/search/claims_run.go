package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// Verdicts on a claim.
const (
	confirmed     = tune.ClaimConfirmed
	smaller       = tune.ClaimSmaller
	larger        = "larger" // only for a share
	noEffect      = tune.ClaimNone
	opposite      = tune.ClaimOpposite
	open          = tune.ClaimOpen
	notMeasurable = tune.ClaimNotMeasurable
)

// Reasons why a row is not measured.
const (
	needsGPU   = "it needs a GPU"
	beyondTool = "a tool at the level of the driver cannot measure it"
)

// RunClaims tests the tuning guides' performance claims (package guides) that can be tested on this device, and as a
// control compares a setting with itself. find returns a workload by name, or nil. fresh measures one setting in a
// complete run in a new process; if it is nil, claims that need this are not tested. Once the test has begun, the
// result is not nil; if ctx ends, it is partial and can be resumed.
func RunClaims(ctx context.Context, o Options, find func(name string) workloads.Workload, fresh func(ctx context.Context, w workloads.Workload, preset string, set gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error)) (*tune.Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Goal, o.Workload = tune.Time, nil
	e := &engine{Options: o, ctx: ctx, out: newResult(o), journal: map[string]*tune.Outcome{}, began: o.Now()}
	e.out.Started, e.out.Unit = o.Now().UTC().Round(time.Millisecond), "speedup"
	if err := e.resumeSearch(); err != nil {
		return nil, err
	}
	c := &claimRunner{engine: e, find: find, run: fresh}
	err := c.testClaims(append([]guides.Claim{guides.Null()}, guides.Claims()...))
	e.out.Status, e.out.Reason = gpuprof.Complete, ""
	if err != nil {
		e.out.Status, e.out.Reason = gpuprof.Partial, reasonOf(err)
	}
	return e.finishSearch(err)
}

type claimRunner struct {
	*engine
	find func(string) workloads.Workload
	run  func(ctx context.Context, w workloads.Workload, preset string, set gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error)
}

// testClaims measures every claim's deciding comparison before the details, so that a short budget costs only
// details.
func (c *claimRunner) testClaims(claims []guides.Claim) error {
	rows := make([]tune.ClaimRow, len(claims))
	var measured []int
	for i, k := range claims {
		rows[i] = tune.ClaimRow{ID: k.ID, Guide: k.Guide, Claim: k.Claim, Figure: k.Figure, AB: c.describeAB(k)}
		if why := c.untestableReason(k); why != "" {
			rows[i].Verdict, rows[i].Reason = notMeasurable, why
			rows[i].Details = slices.Clone(k.Notes)
			continue
		}
		rows[i].Verdict, rows[i].Reason = open, "the budget ended before this was measured; give more time with --budget"
		measured = append(measured, i)
	}
	c.out.Claims = rows
	const firstShare = 0.75
	for n, i := range measured {
		limit := c.timeLeft(firstShare) / time.Duration(len(measured)-n)
		if err := c.testFirst(claims[i], &rows[i], limit); err != nil {
			return err
		}
	}
	details := 0
	for _, i := range measured {
		rows[i].Details = append(rows[i].Details, claims[i].Notes...)
		details += len(c.listDetails(claims[i]))
	}
	for _, i := range measured {
		without := 0
		for _, ab := range c.listDetails(claims[i]) {
			limit := c.timeLeft(1) / time.Duration(details)
			details--
			done, err := c.testDetail(claims[i], ab, &rows[i], limit)
			if err != nil {
				return err
			}
			if !done {
				without++
			}
		}
		if without > 0 && (rows[i].Verdict != open || rows[i].CI95 != [2]float64{}) { // an open row without a figure reports its missing time itself
			rows[i].Details = append(rows[i].Details, fmt.Sprintf("no time was left for further comparisons (%d); give more with --budget", without))
		}
	}
	return nil
}

// listDetails lists the further comparisons of a claim that apply to this device.
func (c *claimRunner) listDetails(k guides.Claim) []guides.AB {
	var out []guides.AB
	for i, ab := range k.AB {
		if (i != c.decidingIndex(k) || c.ignoresTimes(k)) && c.isForDevice(ab) {
			out = append(out, ab)
		}
	}
	return out
}

func (c *claimRunner) isForDevice(ab guides.AB) bool {
	return ab.On == "" || ab.On == "host" == (c.Device == "host")
}

// decidingIndex returns the index of the comparison that decides a claim on this device.
func (c *claimRunner) decidingIndex(k guides.Claim) int {
	return max(0, slices.IndexFunc(k.AB, c.isForDevice))
}

// ignoresTimes reports whether a claim's times are meaningless on this device.
func (c *claimRunner) ignoresTimes(k guides.Claim) bool {
	return k.Run == guides.Exactly && c.Device == "host"
}

// untestableReason returns the reason why a claim cannot be tested on this device, or "".
func (c *claimRunner) untestableReason(k guides.Claim) string {
	host := c.Device == "host"
	switch {
	case k.Not == guides.BeyondTool:
		return cmp.Or(k.Why, beyondTool)
	case k.Not != "":
		return k.Not
	case host && !k.Host:
		return needsGPU + ": the host device's own version of this does not show it"
	case !host && !k.GPU:
		return "it is work of the CPU: measure it with --device host"
	case (k.Run == guides.Share || k.Run == guides.Overhead || k.Run == guides.First) && c.run == nil:
		return "it needs a whole run in a process of its own"
	}
	for _, ab := range k.AB {
		if c.findWorkload(ab.Workload) == nil {
			return fmt.Sprintf("workload %s is not in this program", ab.Workload)
		}
	}
	return ""
}

// sittings is the number of times that the deciding comparison opens both sides: a session's buffer addresses change
// its times by more than the blocks of one session vary.
const sittings = 4

func (c *claimRunner) testFirst(k guides.Claim, row *tune.ClaimRow, limit time.Duration) error {
	if c.ignoresTimes(k) {
		row.Verdict, row.Reason = notMeasurable, needsGPU+": the host device rounds inputs and multiplies in fp32; errors and bytes are below"
		return nil
	}
	if k.Run == guides.Share || k.Run == guides.Overhead {
		return c.testWholeRun(k, row, limit)
	}
	if k.Run == guides.First {
		return c.firstRuns(k, row, limit)
	}
	o, err := c.measureSittings(k, limit)
	if o == nil {
		return err
	}
	if o.Verdict != "" {
		row.Verdict, row.Reason = notMeasurable, o.Reason
		return nil
	}
	d := ratioOf(o.A, o.B)
	switch {
	case k.Run == guides.Transfers && o.CountA["copies"] > 0:
		addSaving(row, o, d)
		return nil
	case k.Run == guides.Memory && o.MemoryA > 0:
		smallerPeak(row, o, d)
		return nil
	}
	if !d.ok {
		row.Reason = "too few blocks fitted into the time; give more with --budget"
		return nil
	}
	row.Measured, row.CI95 = 1/d.ratio, [2]float64{1 / d.ci[1], 1 / d.ci[0]}
	row.Verdict, row.Reason = judgeClaim(k, row.CI95)
	if text := countsText(o); text != "" {
		row.Details = append(row.Details, "a step: "+text)
	}
	return nil
}

// measureSittings compares a claim's sides in several sittings. The outcome has one block per sitting; it is nil if
// there was no time for a single one.
func (c *claimRunner) measureSittings(k guides.Claim, limit time.Duration) (*tune.Outcome, error) {
	var sat []*tune.Outcome
	began := c.spent()
	for n := range sittings {
		left := limit - time.Duration((c.spent()-began)*float64(time.Second))
		o, err := c.measurePair(k.ID, n+1, k.AB[c.decidingIndex(k)], left/time.Duration(sittings-n))
		if err != nil || o != nil && o.Verdict != "" {
			return o, err
		}
		if o == nil {
			break
		}
		sat = append(sat, o)
	}
	switch len(sat) {
	case 0:
		return nil, nil
	case 1: // only one sitting: its blocks must do
		return sat[0], nil
	}
	// A sitting's blocks were measured in pairs, and the ratio of a pair cancels what slowed both of its blocks. Each
	// sitting becomes a replicate: its ratio is stored as B, and 1 as A.
	all := *sat[0]
	all.A, all.B = nil, nil
	for _, o := range sat {
		var one, ratios []float64
		for i := range o.A {
			one, ratios = append(one, 1), append(ratios, o.B[i][0]/o.A[i][0])
		}
		all.A, all.B = append(all.A, one), append(all.B, ratios)
	}
	return &all, nil
}

// testDetail adds one further comparison of a single sitting to a claim's row; done is false if no time was left.
func (c *claimRunner) testDetail(k guides.Claim, ab guides.AB, row *tune.ClaimRow, limit time.Duration) (done bool, err error) {
	o, err := c.measurePair(row.ID, 0, ab, limit)
	if o == nil {
		return false, err
	}
	text := c.detailText(o, c.ignoresTimes(k))
	if ab.Latency && o.Verdict == "" {
		text = fmt.Sprintf("p99 at %.4g requests/s ", o.Rate) + text
	}
	row.Details = append(row.Details, abText(ab)+": "+text)
	return true, nil
}

func (c *claimRunner) detailText(o *tune.Outcome, timeless bool) string {
	if o.Verdict != "" {
		return "not measurable here: " + o.Reason
	}
	var parts []string
	switch d := ratioOf(o.A, o.B); {
	case timeless:
		parts = append(parts, fmt.Sprintf("error against float64 %.1e, %s", o.Error, limitText(o.Error)))
		if o.MemoryA > 0 {
			parts = append(parts, fmt.Sprintf("peak memory x%.2f", float64(o.MemoryB)/float64(o.MemoryA)))
		}
		return strings.Join(parts, "; ") + fmt.Sprintf("; %.4g bytes copied per step, %.4g before", o.CountB["copied_bytes"], o.CountA["copied_bytes"])
	case !d.ok:
		parts = append(parts, "too few blocks fitted into the time")
	default:
		parts = append(parts, fmt.Sprintf("x%.3f (%.3f to %.3f)", 1/d.ratio, 1/d.ci[1], 1/d.ci[0]))
	}
	if text := callersText(o.SeenA, o.SeenB); text != "" {
		parts = append(parts, text)
	}
	if text := countsText(o); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// callersText lists the callers' latencies other than p99, as medians over blocks, and the blocks with a late sender.
func callersText(a, b *tune.Seen) string {
	if a == nil || b == nil || len(a.P50S) == 0 || len(b.P50S) == 0 {
		return ""
	}
	text := fmt.Sprintf("p50 %s -> %s, goodput %.4g -> %.4g requests/s", gpuprof.FormatSeconds(stats.Median(a.P50S)), gpuprof.FormatSeconds(stats.Median(b.P50S)),
		stats.Median(a.Goodput), stats.Median(b.Goodput))
	if late := a.SenderLate + b.SenderLate; late > 0 {
		text += fmt.Sprintf(", the sender late in %d of %d blocks, whose tail measures the sender", late, len(a.P50S)+len(b.P50S))
	}
	return text
}

// largestError is the largest relative error against float64 that the guides accept for a lower precision.
const largestError = 0.01

func limitText(e float64) string {
	if e <= largestError {
		return "within the guides' 1 %"
	}
	return "above the guides' 1 %"
}

// findWorkload finds a workload, or one of the small programs that only claims need.
func (c *claimRunner) findWorkload(name string) workloads.Workload {
	for _, w := range guides.Programs() {
		if w.Name() == name {
			return w
		}
	}
	return c.find(name)
}

// measurePair runs one comparison: the n-th of several sittings, or with sitting 0 a single one. The outcome is nil
// if there was no time, or, with an error, if the search was interrupted.
func (c *claimRunner) measurePair(id string, sitting int, ab guides.AB, limit time.Duration) (*tune.Outcome, error) {
	w := c.findWorkload(ab.Workload)
	a, err := workloads.Resolve(w, ab.Preset, ab.A)
	if err != nil {
		return nil, err
	}
	b, err := workloads.Resolve(w, ab.Preset, ab.B)
	if err != nil {
		return nil, err
	}
	sa, sb := Side{Workload: w, Preset: ab.Preset, Knobs: a}, Side{Workload: w, Preset: ab.Preset, Knobs: b, Env: ab.EnvB}
	goal := tune.Time
	if ab.Latency {
		goal = tune.Latency
	}
	o, err := c.measureOnce("claims", fmt.Sprintf("%s %d | %s | %s", id, sitting, sa.key(), sb.key()), id+" "+tune.DescribeSettings(changedSettings(a, b)), limit, func() (*tune.Outcome, error) {
		o, err := c.Bench.Compare(c.ctx, sa, sb, Limits{Goal: goal, Time: limit, Seed: c.Seed + uint64(sitting), Sitting: sitting > 0})
		if err != nil && c.ctx.Err() == nil { // A itself fails on this device
			o = &tune.Outcome{}
			failOutcome(o, err)
			err = nil
		}
		return o, err
	})
	if errors.Is(err, errSpent) {
		return nil, nil
	}
	return o, err
}

func judgeClaim(k guides.Claim, ci [2]float64) (verdict, reason string) {
	return tune.Promise{Speedup: k.Speedup, Placebo: k.Placebo, Null: k.Null}.Judge(ci)
}

// leastOnce is the smallest one-time cost worth printing, in seconds.
const leastOnce = 1e-4

// countsText lists the counts per step in which the two sides differ, and B's one-time costs.
func countsText(o *tune.Outcome) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(o.CountA)) {
		a, b := o.CountA[k], o.CountB[k]
		if math.Abs(a-b) > 0.01*max(a, b) {
			parts = append(parts, fmt.Sprintf("%s %.4g -> %.4g", strings.ReplaceAll(k, "_", " "), a, b))
		}
	}
	if o.MemoryA > 0 && math.Abs(float64(o.MemoryB)/float64(o.MemoryA)-1) > 0.01 {
		parts = append(parts, fmt.Sprintf("peak memory x%.2f", float64(o.MemoryB)/float64(o.MemoryA)))
	}
	if o.Error > 1e-4 {
		parts = append(parts, fmt.Sprintf("error against float64 %.1e", o.Error))
	}
	for _, k := range slices.Sorted(maps.Keys(o.OneTime)) {
		if v := o.OneTime[k]; v > leastOnce && k != "setup_s" {
			parts = append(parts, fmt.Sprintf("%s %s once", strings.ReplaceAll(strings.TrimSuffix(k, "_s"), "_", " "), gpuprof.FormatSeconds(v)))
		}
	}
	return strings.Join(parts, ", ")
}
