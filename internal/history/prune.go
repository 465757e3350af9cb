package history

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"
)

// besideChange is how many sessions on either side of a change are never removed.
const besideChange = 10

// windowStep is by how much the windows lie apart in which changes are looked for: each
// change is then in the middle half of one.
const windowStep = DefaultLast / 2

// Pruned is an object that prune removes, and why.
type Pruned struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Prune finds what need not be kept: objects that a pack holds, which was read and is
// whole; and of the packs older than keep all but one session of each commit, except
// within ten sessions of a change. It removes nothing but with apply. A pack that loses
// sessions is replaced by a new one, which is read back before the old one goes.
func (s *Store) Prune(ctx context.Context, o Options, keep time.Duration, now time.Time, apply bool) ([]Pruned, []Skipped, error) {
	o = o.full()
	caches := s.newCaches()
	in, err := s.list(ctx, o.Filter, caches)
	if err != nil {
		return nil, nil, err
	}
	p := &pruning{store: s, in: in, apply: apply, whole: map[string]bool{}}
	for _, r := range in.refs {
		if r.pack != "" && in.loose[r.name] && p.holds(ctx, r.pack, r.name) {
			p.remove(ctx, r.name, "the pack "+path.Base(r.pack)+" holds it")
		}
	}
	protected, skipped := s.besideChanges(ctx, in, o, caches)
	s.save(caches)
	old := map[string][]ref{}
	for _, r := range in.refs {
		if r.pack != "" {
			old[r.pack] = append(old[r.pack], r)
		}
	}
	spent := map[string]bool{} // series and commit
	for _, pack := range slices.Sorted(maps.Keys(old)) {
		if monthEnd(old[pack][0].at).Add(keep).Before(now) {
			p.thin(ctx, pack, protected, spent)
		}
	}
	return p.out, append(in.skipped, skipped...), errors.Join(p.errs...)
}

// monthEnd is when the month of a time ends.
func monthEnd(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

type pruning struct {
	store *Store
	in    *index
	apply bool
	whole map[string]bool // packs and sessions in them, by pack and name
	out   []Pruned
	errs  []error
}

// holds says that a pack was read and holds the session of a name, unchanged.
func (p *pruning) holds(ctx context.Context, pack, name string) bool {
	if _, known := p.whole[pack]; !known {
		held, _, err := p.store.readPack(ctx, pack)
		p.whole[pack] = err == nil
		for _, n := range held {
			p.whole[pack+" "+n] = true
		}
	}
	return p.whole[pack+" "+name]
}

func (p *pruning) remove(ctx context.Context, name, why string) {
	if p.apply {
		if err := p.store.bucket.Remove(ctx, name); err != nil {
			p.errs = append(p.errs, err)
			return
		}
	}
	p.out = append(p.out, Pruned{name, why})
}

// thin replaces a pack by one with a session a commit, and those that are protected.
func (p *pruning) thin(ctx context.Context, pack string, protected, spent map[string]bool) {
	held, texts, err := p.store.readPack(ctx, pack)
	if err != nil {
		return // listed among what was skipped
	}
	var names []string
	var kept [][]byte
	var gone []string
	for i, n := range held {
		r, _ := refOf(n)
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

// besideChanges are the objects within ten sessions of a change of any metric. Changes
// are looked for in windows that overlap, since the work grows with their square.
func (s *Store) besideChanges(ctx context.Context, in *index, o Options, caches *caches) (map[string]bool, []Skipped) {
	protected := map[string]bool{}
	all := o
	all.Last = len(in.refs)
	var skipped []Skipped
	for _, row := range in.rows(all) {
		for from := 0; from < len(row); from += windowStep {
			window := row[from:min(len(row), from+DefaultLast)]
			points, missing := s.points(ctx, window, caches)
			skipped = append(skipped, missing...)
			t := s.trend(ctx, window, points, o, caches)
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
