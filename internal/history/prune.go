package history

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"
)

// besideChange is the number of sessions on each side of a change that Prune keeps.
const besideChange = 10

// windowStep is the distance between the starts of the windows that are searched for changes, so that each change is
// in the middle half of one window.
const windowStep = DefaultLast / 2

// Pruned is an object that Prune removes, with the reason.
type Pruned struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Prune finds removable objects: sessions that an intact pack contains, and, of packs older than keep, all but one
// session per commit, except within ten sessions of a change. It removes objects only with apply. A new pack replaces
// one that loses sessions, and is read back before the old one is removed.
func (s *Store) Prune(ctx context.Context, o Options, keep time.Duration, now time.Time, apply bool) ([]Pruned, []Skipped, error) {
	o = o.fillDefaults()
	caches := s.newCaches()
	in, err := s.list(ctx, o.Filter, caches)
	if err != nil {
		return nil, nil, err
	}
	p := &pruner{store: s, in: in, apply: apply, whole: map[string]bool{}}
	for _, r := range in.refs {
		if r.pack != "" && in.loose[r.name] && p.packHolds(ctx, r.pack, r.name) {
			p.removeObject(ctx, r.name, "the pack "+path.Base(r.pack)+" holds it")
		}
	}
	protected, skipped := s.protectChanges(ctx, in, o, caches)
	s.saveCaches(caches)
	old := map[string][]sessionRef{}
	for _, r := range in.refs {
		if r.pack != "" {
			old[r.pack] = append(old[r.pack], r)
		}
	}
	spent := map[string]bool{} // keys: series and commit
	for _, pack := range slices.Sorted(maps.Keys(old)) {
		if monthEnd(old[pack][0].at).Add(keep).Before(now) {
			p.thinPack(ctx, pack, protected, spent)
		}
	}
	return p.out, append(in.skipped, skipped...), errors.Join(p.errs...)
}

// monthEnd returns the end of the month of a time.
func monthEnd(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

type pruner struct {
	store *Store
	in    *index
	apply bool
	whole map[string]bool // packs, and sessions in them, that were read intact; keys: pack, or pack and name
	out   []Pruned
	errs  []error
}

// packHolds reports whether a pack was read and contains the named session, unchanged.
func (p *pruner) packHolds(ctx context.Context, pack, name string) bool {
	if _, known := p.whole[pack]; !known {
		held, _, err := p.store.readPack(ctx, pack)
		p.whole[pack] = err == nil
		for _, n := range held {
			p.whole[pack+" "+n] = true
		}
	}
	return p.whole[pack+" "+name]
}

func (p *pruner) removeObject(ctx context.Context, name, why string) {
	if p.apply {
		if err := p.store.bucket.Remove(ctx, name); err != nil {
			p.errs = append(p.errs, err)
			return
		}
	}
	p.out = append(p.out, Pruned{name, why})
}

// thinPack replaces a pack by one with a single session per commit and the protected ones.
func (p *pruner) thinPack(ctx context.Context, pack string, protected, spent map[string]bool) {
	held, texts, err := p.store.readPack(ctx, pack)
	if err != nil {
		return // skipped already lists it
	}
	var names []string
	var kept [][]byte
	var gone []string
	for i, n := range held {
		r, _ := parseRef(n)
		key := r.series() + " " + r.commit
		if !protected[n] && (r.commit == unknownCommit || spent[key]) {
			gone = append(gone, n)
			continue
		}
		spent[key] = true
		names, kept = append(names, n), append(kept, texts[i])
	}
	if len(gone) == 0 {
		return
	}
	if p.apply && len(names) > 0 {
		if _, err := p.store.writePack(ctx, path.Dir(pack), names, kept); err != nil {
			p.errs = append(p.errs, err)
			return
		}
	}
	if p.apply {
		if err := p.store.bucket.Remove(ctx, pack); err != nil {
			p.errs = append(p.errs, err)
			return
		}
	}
	for _, n := range gone {
		p.out = append(p.out, Pruned{n, "its commit has another session, and no change is near"})
	}
}

// protectChanges returns the objects within ten sessions of a change of any metric. It searches overlapping windows,
// since the work grows with the square of their length.
func (s *Store) protectChanges(ctx context.Context, in *index, o Options, caches *caches) (map[string]bool, []Skipped) {
	protected := map[string]bool{}
	all := o
	all.Last = len(in.refs)
	var skipped []Skipped
	for _, row := range in.latestRows(all) {
		for from := 0; from < len(row); from += windowStep {
			window := row[from:min(len(row), from+DefaultLast)]
			points, missing := s.loadPoints(ctx, window, caches)
			skipped = append(skipped, missing...)
			t := s.buildTrend(ctx, window, points, o, caches)
			t.analyse(o)
			for i := range t.Metrics {
				for _, c := range t.Metrics[i].Changes {
					for k := max(0, c.At-besideChange); k < min(len(t.Sessions), c.At+besideChange); k++ {
						protected[t.Sessions[k].Object] = true
					}
				}
			}
		}
	}
	return protected, skipped
}
