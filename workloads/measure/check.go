package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Check opens the plan's workload on dev and compares every stage with its reference, without the cache. Failed checks
// are in the result, and the error is then an ErrCheck.
func Check(ctx context.Context, dev device.Device, plan Plan) ([]gpuprof.Check, error) {
	sess, err := plan.open(ctx, dev)
	if err != nil {
		return nil, err
	}
	defer sess.Close()
	if text := substitutedText(sess); text != "" && plan.Note != nil {
		plan.Note(text)
	}
	return plan.checkSession(ctx, sess, "")
}

func substitutedText(sess workloads.Session) string {
	if s, ok := sess.(workloads.Substituter); ok {
		return s.Substituted()
	}
	return ""
}

// open opens the workload's session, after the workload has accepted device and settings.
func (p Plan) open(ctx context.Context, dev device.Device) (workloads.Session, error) {
	if d, ok := dev.(interface{ Libraries() map[string]string }); ok {
		d.Libraries() // so that the device's facts include their versions
	}
	if err := p.Workload.Refuse(dev.Info(), p.Knobs); err != nil {
		return nil, err
	}
	sess, err := p.Workload.Open(ctx, dev, workloads.Config{Preset: p.Preset, Knobs: p.Knobs, Seed: p.Seed, Mode: p.Mode})
	if err != nil {
		return nil, fmt.Errorf("setting up %s: %w", p.Workload.Name(), err)
	}
	return sess, nil
}

// checkSession compares an open session with its reference and with theory. The parameter known is the path of a
// cache of the checks against theory, which all settings of a build share; "" for no cache.
func (p Plan) checkSession(ctx context.Context, sess workloads.Session, known string) ([]gpuprof.Check, error) {
	checks, err := sess.Check(ctx)
	if t, is := sess.(workloads.KnownAnswerer); is && err == nil {
		answers, cached := readCache(known)
		if !cached {
			if answers, err = t.KnownAnswers(ctx); err == nil && checkError(p, answers) == nil {
				writeCache(known, answers)
			}
		}
		checks = append(checks, answers...)
	}
	if err != nil {
		return checks, fmt.Errorf("checking %s: %w", p.Workload.Name(), err)
	}
	return checks, checkError(p, checks)
}

func checkError(plan Plan, checks []gpuprof.Check) error {
	if len(checks) == 0 {
		return gpuprof.Errorf(gpuprof.ErrCheck, "checking %s: the workload made no check, so its times are unreliable", plan.Workload.Name()).WithFix("report this as a bug")
	}
	for _, c := range checks {
		if !c.Pass {
			return gpuprof.Errorf(gpuprof.ErrCheck, "checking %s: stage %s differs from the float64 reference by %.3g (allowed %.3g), so no times are reported", plan.Workload.Name(), c.Stage, float64(c.RelativeError), c.Tolerance).WithFix("run gpuprof run --check %s to see every stage", plan.Workload.Name())
		}
	}
	return nil
}

// checkOrCached returns the session's check or a cached pass, so that several processes of a comparison compute the
// reference once. The cache key has build, settings, the device's fingerprint and the hash of its kernels.
func checkOrCached(ctx context.Context, dev device.Device, sess workloads.Session, plan Plan, code string) ([]gpuprof.Check, error) {
	path := cachePath(dev.Info(), plan, code)
	if checks, ok := readCache(path); ok {
		return checks, nil
	}
	checks, err := plan.checkSession(ctx, sess, knownPath(plan))
	if err == nil {
		writeCache(path, checks)
	}
	return checks, err
}

// cachePath returns the file that caches a passed check. It returns "" without a folder or build, or if a knob names
// a file, whose content is not in the key.
func cachePath(info device.Info, plan Plan, code string) string {
	if plan.CacheDir == "" || plan.Build == "" {
		return ""
	}
	for _, k := range plan.Workload.Knobs() {
		if !k.NamesFile {
			continue
		}
		if _, err := os.Stat(plan.Knobs[k.Name]); err == nil {
			return ""
		}
	}
	key := hashed(16, plan.Build, info, code, plan.Workload.Name(), plan.Preset, plan.Knobs, plan.Seed, plan.Mode)
	if key == "" {
		return ""
	}
	return filepath.Join(plan.CacheDir, "checks", key+".json")
}

// knownPath returns the file that caches the result of a workloads.KnownAnswerer, "" when nothing can be cached.
func knownPath(plan Plan) string {
	key := hashed(16, plan.Build, plan.Workload.Name(), "known answers")
	if plan.CacheDir == "" || plan.Build == "" || key == "" {
		return ""
	}
	return filepath.Join(plan.CacheDir, "checks", key+".json")
}

func readCache(path string) ([]gpuprof.Check, bool) {
	if path == "" {
		return nil, false
	}
	b, err := outside.ReadFound(path)
	if err != nil {
		return nil, false
	}
	var checks []gpuprof.Check
	if json.Unmarshal(b, &checks) != nil || len(checks) == 0 {
		return nil, false
	}
	for _, c := range checks { // only passes are cached; anything else is damage
		if !c.Pass || c.Stage == "" {
			return nil, false
		}
	}
	return checks, true
}

// writeCache stores checks in a file. It ignores errors, because a missing cache only costs time.
func writeCache(path string, checks []gpuprof.Check) {
	b, err := json.Marshal(checks)
	if path == "" || err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	_ = atomicfile.Options{}.Write(path, b)
}
