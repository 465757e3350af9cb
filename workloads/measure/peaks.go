package measure

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func (r *runner) measureCeilings() error {
	c, err := r.dev.Ceilings(r.ctx)
	r.run.Ceilings = c
	return err
}

// moreCeilings measures the peak rates again in the middle and at the end of a run. At the start another program may
// have used the memory, or the clocks may have been low. If a measurement fails or takes too long, the earlier rates
// remain.
func (r *runner) moreCeilings() error {
	if r.run.Simulated() || time.Since(r.started) > r.plan.MaxTime {
		return nil
	}
	if c, err := r.dev.Ceilings(r.ctx); err == nil {
		r.run.Ceilings = r.run.Ceilings.Best(c)
	}
	return nil
}

// keepCeilings stores the run's peak rates in the cache folder and replaces them by the best ones stored there for this
// device. It ignores simulated rates.
func (r *runner) keepCeilings() {
	if r.run.Simulated() || r.run.Ceilings == (gpuprof.Ceilings{}) {
		return
	}
	r.run.Ceilings = sharePeaks(peaksFolder(r.dev.Info(), r.plan, r.dev.CodeHash()), r.run.Ceilings)
}

// addBounds gives each stage its roofline bound from its minimum work and the peak rates, or the reason for none.
func (r *runner) addBounds() {
	info := r.dev.Info()
	for i := range r.run.Stages {
		res := &r.run.Stages[i]
		for _, st := range r.sess.Stages() {
			if res.Parent == "step" && res.Name == st.Name {
				b := boundOf(st, info, r.run.Ceilings)
				if res.Device != nil {
					b = b.Beside(res.Device.Median)
				}
				res.BoundS, res.BoundBy, res.NoBound = b.S, b.By, b.Missing
			}
		}
	}
}

// addLatencyFloor computes the least possible latency: a batch of one request, its stages in sequence. It drops a floor
// above the mean latency, which is wrong: the data came from a nearer cache, or a peak rate was measured too low.
func (r *runner) addLatencyFloor() {
	q := r.run.Requests
	if q == nil {
		return
	}
	floor := gpuprof.Bound{S: r.aloneS}
	for _, st := range r.alone {
		floor.S += boundOf(st, r.dev.Info(), r.run.Ceilings).S
	}
	q.FloorS = floor.Beside(q.Latency.MeanS).S
}

func boundOf(st gpuprof.Stage, info device.Info, c gpuprof.Ceilings) gpuprof.Bound {
	if st.Role.Copies() && info.Kind != "host" {
		return gpuprof.Bound{Missing: "it copies over the link between host and device, whose rate a run does not measure; gpuprof doctor --bench does"}
	}
	return c.Bound(st.Minimum, info.CacheBytes)
}

// peaksFolder returns the folder of the peak rates for a device (by name and facts, including UUID and driver), its
// threads, kernels and build; "" if nothing can be stored.
func peaksFolder(info device.Info, plan Plan, code string) string {
	if plan.CacheDir == "" || plan.Build == "" {
		return ""
	}
	key := hashed(16, plan.Build, info, code)
	if key == "" {
		return ""
	}
	return filepath.Join(plan.CacheDir, "peaks", key)
}

// sharePeaks returns the best of c and of the rates in folder, and stores it there. Every writer has its own file and
// removes only files whose rates its own includes, so concurrent writers lose nothing. It ignores write errors.
func sharePeaks(folder string, c gpuprof.Ceilings) gpuprof.Ceilings {
	c = c.Best(gpuprof.Ceilings{})
	if folder == "" || os.MkdirAll(folder, 0o755) != nil {
		return c
	}
	entries, err := outside.Dir(folder).ReadDir(".")
	if err != nil {
		return c
	}
	best, seen := c, []string{}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		b, err := outside.ReadFound(path)
		if err != nil { // a concurrent writer has merged it into its own file
			continue
		}
		var o gpuprof.Ceilings
		if json.Unmarshal(b, &o) != nil {
			o = gpuprof.Ceilings{} // a damaged file has no rates
		}
		best, seen = best.Best(o), append(seen, path)
	}
	if writePeaks(folder, best) {
		for _, path := range seen {
			_ = os.Remove(path) // if another writer removed it, that writer's file has its rates
		}
	}
	return best
}

func writePeaks(folder string, c gpuprof.Ceilings) bool {
	b, err := json.Marshal(c)
	if err != nil {
		return false
	}
	return atomicfile.Options{}.Write(filepath.Join(folder, "peaks-"+rand.Text()+".json"), b) == nil
}
