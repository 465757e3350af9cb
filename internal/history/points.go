package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// point is what a report needs of a session.
type point struct {
	Commit   Commit    `json:"commit"`
	Started  time.Time `json:"started"`
	Tool     string    `json:"tool,omitempty"`
	Total    string    `json:"total,omitempty"`
	Values   []value   `json:"values"`
	Sentinel *value    `json:"sentinel,omitempty"`
}

// value is a metric of a session: the median of the medians of its processes, or the
// counter.
type value struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Higher bool    `json:"higher,omitempty"`
	Exact  bool    `json:"exact,omitempty"`
	Shown  bool    `json:"undirected,omitempty"` // no direction is better: shown, and never an alarm
	Stage  bool    `json:"stage,omitempty"`      // one of those that add up to the total
	V      float64 `json:"v"`
	Rate   float64 `json:"rate_per_s,omitempty"` // of requests under which it was measured
}

func pointOf(s *Session) point {
	p := point{Commit: s.Commit, Started: s.Session.Started, Tool: s.Benchmark.Tool, Total: s.Session.Total}
	for i := range s.Session.Metrics {
		if v, ok := valueOf(&s.Session.Metrics[i]); ok && !s.Session.Metrics[i].SenderLate {
			v.Stage = slices.Contains(s.Session.Stages, v.Name)
			p.Values = append(p.Values, v)
		}
	}
	if s.Sentinel != nil {
		p.Sentinel = sentinelOf(s.Sentinel)
	}
	return p
}

func valueOf(m *baseline.Metric) (value, bool) {
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

// sentinelOf is the figure of a sentinel: its step, or the first that is no counter.
func sentinelOf(s *baseline.Session) *value {
	var found *value
	for i := range s.Metrics {
		v, ok := valueOf(&s.Metrics[i])
		if ok && !v.Exact && (found == nil || v.Name == s.Total) {
			found = &v
		}
	}
	return found
}

// caches are what this user read before, a file for each series. What is in them never
// changes, because objects do not.
type caches struct {
	dir string
	all map[string]*cache
}

type cache struct {
	Version int                 `json:"version"`
	Points  map[string]point    `json:"points"` // by hash
	Packs   map[string][]string `json:"packs"`  // the names that a pack holds
	Class   *Class              `json:"class,omitempty"`
	changed bool
}

// cacheVersion changes with point.
const cacheVersion = 1

func (s *Store) newCaches() *caches { return &caches{dir: s.cache, all: map[string]*cache{}} }

func (c *caches) file(series string) string {
	return filepath.Join(c.dir, filepath.FromSlash(series)+".json.zst")
}

// of is the cache of a series; an empty one where there is none that can be read.
func (c *caches) of(series string) *cache {
	if has := c.all[series]; has != nil {
		return has
	}
	out := &cache{}
	if c.dir != "" {
		if text, err := outside.ReadFound(c.file(series)); err == nil && json.Unmarshal(text, out) != nil {
			out = &cache{}
		}
	}
	if out.Version != cacheVersion {
		out = &cache{Version: cacheVersion}
	}
	if out.Points == nil {
		out.Points = map[string]point{}
	}
	if out.Packs == nil {
		out.Packs = map[string][]string{}
	}
	c.all[series] = out
	return out
}

func (c *cache) keepPack(name string, held []string) {
	c.Packs[name], c.changed = held, true
}

func (c *cache) keepPoint(hash string, p point) {
	c.Points[hash], c.changed = p, true
}

// save keeps what was read. A cache that cannot be written is only slower, so that no
// error comes of it.
func (s *Store) save(c *caches) {
	for _, series := range slices.Sorted(maps.Keys(c.all)) {
		one := c.all[series]
		if c.dir == "" || !one.changed {
			continue
		}
		if text, err := json.Marshal(one); err == nil {
			if content, err := s.compress(text); err == nil {
				_ = writeCache(c.file(series), content)
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

// readers is how many objects are fetched at once: a store in the network answers
// after tens of milliseconds.
const readers = 16

// points reads what a report needs of sessions, from the cache where it can.
func (s *Store) points(ctx context.Context, refs []ref, caches *caches) (map[string]point, []Skipped) {
	out := make(map[string]point, len(refs))
	var alone []ref
	packs := map[string][]ref{}
	for _, r := range refs {
		if p, ok := caches.of(r.series()).Points[r.hash]; ok {
			out[r.hash] = p
		} else if r.pack != "" {
			packs[r.pack] = append(packs[r.pack], r)
		} else {
			alone = append(alone, r)
		}
	}
	var skipped []Skipped
	keep := func(r *ref, text []byte, err error) {
		var session *Session
		if err == nil {
			session, err = decodeSession(text, r.name)
		}
		if err != nil {
			skipped = append(skipped, Skipped{r.name, why(err)})
			return
		}
		out[r.hash] = pointOf(session)
		caches.of(r.series()).keepPoint(r.hash, out[r.hash])
	}
	for _, pack := range slices.Sorted(maps.Keys(packs)) {
		held, texts, err := s.readPack(ctx, pack)
		for _, r := range packs[pack] {
			at := slices.Index(held, r.name)
			if at < 0 { // the pack is damaged; its own object may be there still
				text, lone := s.session(ctx, r.name)
				if lone != nil {
					lone = errors.Join(err, lone)
				}
				keep(&r, text, lone)
				continue
			}
			keep(&r, texts[at], nil)
		}
	}
	texts, errs := s.fetch(ctx, alone)
	for i := range alone {
		keep(&alone[i], texts[i], errs[i])
	}
	return out, skipped
}

// fetch reads the objects of sessions, several at once.
func (s *Store) fetch(ctx context.Context, refs []ref) (texts [][]byte, errs []error) {
	texts, errs = make([][]byte, len(refs)), make([]error, len(refs))
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(readers, len(refs)) {
		wait.Go(func() {
			for i := range next {
				texts[i], errs[i] = s.session(ctx, refs[i].name)
			}
		})
	}
	for i := range refs {
		next <- i
	}
	close(next)
	wait.Wait()
	return texts, errs
}

// class is what the sessions of a series have in common; nil where it is not known.
func (s *Store) class(ctx context.Context, series string, caches *caches) *Class {
	cache := caches.of(series)
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
