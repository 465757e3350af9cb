package tuneprogram

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// Meter reads the energy counters of the machine's GPUs while the program runs. It is zero without GPUs.
type Meter struct {
	// Counters return the joules that a GPU has used since a fixed time, by the GPU's UUID; ok is false if the counter
	// cannot be read.
	Counters map[string]func() (joules float64, ok bool)
	// Unknown is the reason why there are no counters.
	Unknown string
}

// A counter updates every 20 to 100 ms. The energy of a time with fewer than leastUpdates updates is unknown.
const (
	pollEvery    = 5 * time.Millisecond
	leastUpdates = 10
)

// update is a new value of a counter, in joules, and the time at which it was first read.
type update struct {
	at     time.Time
	joules float64
}

// start reads the counters in its own goroutine until stop, which returns the updates of each counter.
func (m *Meter) start() (stop func() map[string][]update) {
	if len(m.Counters) == 0 {
		return func() map[string][]update { return nil }
	}
	out, end, ended := map[string][]update{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			m.poll(out)
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return func() map[string][]update {
		close(end)
		<-ended
		return out
	}
}

// poll appends an update to out for each counter whose value has changed.
func (m *Meter) poll(out map[string][]update) {
	for id, read := range m.Counters {
		had := out[id]
		if j, ok := read(); ok && (len(had) == 0 || had[len(had)-1].joules != j) {
			out[id] = append(had, update{time.Now(), j})
		}
	}
}

// setEnergy sets the joules per step of the GPUs that the program used, or the reason why they are unknown.
func (m *Meter) setEnergy(r *tune.ProgramRun, h *hookResult, seen map[string][]update) {
	if h.Steps <= 0 || len(h.GPUs) == 0 && h.Device != "cuda" {
		return
	}
	if len(m.Counters) == 0 {
		r.EnergyUnknown = m.Unknown
		return
	}
	from, to := epochTime(h.WindowAt[0]), epochTime(h.WindowAt[1])
	sum := 0.0
	for _, id := range h.GPUs {
		updates, why := m.updatesOf(id, seen)
		if why != "" {
			r.EnergyUnknown = why
			return
		}
		j, ok := joulesBetween(updates, from, to)
		if !ok {
			r.EnergyUnknown = "the energy counter of a GPU moved too rarely during the measured steps: measure more with --steps"
			return
		}
		sum += j
	}
	if r.Joules = sum / float64(h.Steps); r.Joules <= 0 {
		r.EnergyUnknown = "the program does not report which GPUs it used"
	}
}

// updatesOf returns the updates of the GPU with a UUID, or why there are none. An empty UUID selects the only GPU.
func (m *Meter) updatesOf(id string, seen map[string][]update) (updates []update, unknown string) {
	for known := range m.Counters {
		if bareUUID(known) == bareUUID(id) || id == "" && len(m.Counters) == 1 {
			if len(seen[known]) == 0 {
				return nil, "NVML reports no energy of the GPU"
			}
			return seen[known], ""
		}
	}
	if id == "" {
		return nil, "this version of PyTorch does not report which of the GPUs it used"
	}
	return nil, "NVML reports no energy of a part of a GPU (MIG), or does not list the GPU"
}

// bareUUID removes the prefix that NVML writes before a UUID and PyTorch does not.
func bareUUID(id string) string { return strings.ToLower(strings.TrimPrefix(id, "GPU-")) }

func epochTime(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }

// joulesBetween returns the increase of a counter between two times, interpolated between its updates. ok is false with
// fewer than leastUpdates updates between the times, with none before from, and with none after to.
func joulesBetween(updates []update, from, to time.Time) (joules float64, ok bool) {
	first, a := joulesAt(updates, from)
	last, b := joulesAt(updates, to)
	inside := 0
	for _, u := range updates {
		if u.at.After(from) && u.at.Before(to) {
			inside++
		}
	}
	return last - first, a && b && inside >= leastUpdates && last >= first
}

func joulesAt(updates []update, at time.Time) (joules float64, ok bool) {
	i := slices.IndexFunc(updates, func(u update) bool { return u.at.After(at) })
	if i < 1 { // all updates are before, or all after
		return 0, false
	}
	a, b := updates[i-1], updates[i]
	share := at.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds()
	return a.joules + share*(b.joules-a.joules), true
}

// energies holds the energy of runs with a setting.
type energies struct {
	joules []float64 // per step
	logs   []float64 // natural logarithms of the ratios, tuned over base
}

// add adds the energy of a tuned run, and its ratio to the neighbouring runs of the unchanged program (base). It adds
// nothing if the energy of one of the runs is unknown.
func (e *energies) add(tuned tune.ProgramRun, base ...tune.ProgramRun) {
	log := math.Log(tuned.Joules)
	for _, r := range base {
		log -= math.Log(r.Joules) / float64(len(base))
	}
	if tuned.Joules > 0 && !math.IsNaN(log) && !math.IsInf(log, 0) {
		e.joules, e.logs = append(e.joules, tuned.Joules), append(e.logs, log)
	}
}

// means returns the mean energy per step in J and the geometric mean of the ratios; 0 without a run.
func (e *energies) means() (joules, ratio float64) {
	if len(e.logs) == 0 {
		return 0, 0
	}
	return stat.Mean(e.joules, nil), tune.FiniteOrZero(math.Exp(stat.Mean(e.logs, nil)))
}

// meanJoules returns the mean energy per step of the runs that have one, J; 0 if none has.
func meanJoules(runs []tune.ProgramRun) float64 {
	var known []float64
	for i := range runs {
		if runs[i].Joules > 0 {
			known = append(known, runs[i].Joules)
		}
	}
	if len(known) == 0 {
		return 0
	}
	return stat.Mean(known, nil)
}

// energyUnknown returns why the energy of the unchanged program is unknown; "" if it is known.
func (e *engine) energyUnknown() string {
	switch {
	case e.p.Metric != tune.PerStep:
		return "the program makes no steps that are seen"
	case meanJoules(e.plain) > 0:
		return ""
	}
	return cmp.Or(e.plain[0].EnergyUnknown, "the program computes on no GPU")
}
