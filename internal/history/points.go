package history

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// point holds the part of a session that a report needs.
type point struct {
	Commit   Commit    `json:"commit"`
	Started  time.Time `json:"started"`
	Tool     string    `json:"tool,omitempty"`
	Total    string    `json:"total,omitempty"`
	Values   []value   `json:"values"`
	Sentinel *value    `json:"sentinel,omitempty"`
}

// value is a metric of a session: the median of its process medians, or the counter.
type value struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Higher bool    `json:"higher,omitempty"`
	Exact  bool    `json:"exact,omitempty"`
	Shown  bool    `json:"undirected,omitempty"` // no better direction: shown, without alarms
	Stage  bool    `json:"stage,omitempty"`      // part of the total
	V      float64 `json:"v"`
	Rate   float64 `json:"rate_per_s,omitempty"` // request rate of the measurement
}

func newPoint(s *Session) point {
	p := point{Commit: s.Commit, Started: s.Session.Started, Tool: s.Benchmark.Tool, Total: s.Session.Total}
	for i := range s.Session.Metrics {
		if v, ok := metricValue(&s.Session.Metrics[i]); ok && !s.Session.Metrics[i].SenderLate {
			v.Stage = slices.Contains(s.Session.Stages, v.Name)
			p.Values = append(p.Values, v)
		}
	}
	if s.Sentinel != nil {
		p.Sentinel = sentinelValue(s.Sentinel)
	}
	return p
}

func metricValue(m *compare.MetricData) (value, bool) {
	v := value{Name: m.Name, Unit: m.Unit, Higher: m.HigherIsBetter, Exact: m.Exact, Shown: m.Undirected, Rate: m.Rate}
	if m.Exact {
		c, ok := stats.CountOf(slices.Concat(m.Runs...))
		v.V = c.Value
		return v, ok
	}
	var medians []float64
	for _, r := range m.Runs {
		if len(r) > 0 {
			medians = append(medians, stats.Median(r))
		}
	}
	v.V = stats.Median(medians)
	return v, len(medians) > 0
}

// sentinelValue returns the sentinel's total, else its first metric that is no counter.
func sentinelValue(s *baseline.Session) *value {
	var found *value
	for i := range s.Metrics {
		v, ok := metricValue(&s.Metrics[i])
		if ok && !v.Exact && (found == nil || v.Name == s.Total) {
			found = &v
		}
	}
	return found
}

// caches holds the points that this user has read before, in one file per series. Entries never expire, since objects
// do not change.
type caches struct {
	dir string
	all map[string]*cache
}

type cache struct {
	Version int              `json:"version"`
	Points  map[string]point `json:"points"` // by hash
	Class   *Class           `json:"class,omitempty"`
	changed bool
}

// cacheVersion must change with the fields of point.
const cacheVersion = 1

func (s *Store) newCaches() *caches { return &caches{dir: s.cache, all: map[string]*cache{}} }

func (c *caches) cacheFile(series string) string {
	return filepath.Join(c.dir, filepath.FromSlash(series)+".json.zst")
}

// openSeries returns the cache of a series, empty if it cannot be read.
func (c *caches) openSeries(series string) *cache {
	if has := c.all[series]; has != nil {
		return has
	}
	out := &cache{}
	if c.dir != "" {
		if text, err := outside.ReadFound(c.cacheFile(series)); err == nil && json.Unmarshal(text, out) != nil {
			out = &cache{}
		}
	}
	if out.Version != cacheVersion {
		out = &cache{Version: cacheVersion}
	}
	if out.Points == nil {
		out.Points = map[string]point{}
	}
	c.all[series] = out
	return out
}

// saveCaches writes the changed caches. Errors are ignored: a missing cache costs only time.
func (s *Store) saveCaches(c *caches) {
	for _, series := range slices.Sorted(maps.Keys(c.all)) {
		one := c.all[series]
		if c.dir == "" || !one.changed {
			continue
		}
		if text, err := json.Marshal(one); err == nil {
			if content, err := s.compress(text); err == nil {
				_ = writeCache(c.cacheFile(series), content)
			}
		}
	}
}

func writeCache(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return atomicfile.Options{}.Write(file, content)
}

// readers is the number of concurrent reads, which hide a network store's latency of tens of milliseconds.
const readers = 16

func (s *Store) loadPoints(ctx context.Context, refs []sessionRef, caches *caches) (map[string]point, []Skipped) {
	out := make(map[string]point, len(refs))
	var missing []sessionRef
	for _, r := range refs {
		if p, ok := caches.openSeries(r.series()).Points[r.hash]; ok {
			out[r.hash] = p
		} else {
			missing = append(missing, r)
		}
	}
	var skipped []Skipped
	texts, errs := s.fetchSessions(ctx, missing)
	for i, r := range missing {
		var session *Session
		err := errs[i]
		if err == nil {
			session, err = decodeSession(texts[i], r.name)
		}
		if err != nil {
			skipped = append(skipped, Skipped{r.name, reasonText(err)})
			continue
		}
		out[r.hash] = newPoint(session)
		cache := caches.openSeries(r.series())
		cache.Points[r.hash], cache.changed = out[r.hash], true
	}
	return out, skipped
}

func (s *Store) fetchSessions(ctx context.Context, refs []sessionRef) (texts [][]byte, errs []error) {
	texts, errs = make([][]byte, len(refs)), make([]error, len(refs))
	var wait errgroup.Group
	wait.SetLimit(readers)
	for i, r := range refs {
		wait.Go(func() error {
			texts[i], errs[i] = s.readSession(ctx, r.name)
			return nil
		})
	}
	_ = wait.Wait() // errs has the errors
	return texts, errs
}

// loadClass returns the class of a series; nil if it cannot be read.
func (s *Store) loadClass(ctx context.Context, series string, caches *caches) *Class {
	cache := caches.openSeries(series)
	if cache.Class == nil {
		text, err := s.bucket.Get(ctx, path.Join(series, classFile))
		if err != nil {
			return nil
		}
		var c Class
		if json.NewDecoder(bytes.NewReader(text)).Decode(&c) != nil {
			return nil
		}
		cache.Class, cache.changed = &c, true
	}
	return cache.Class
}
