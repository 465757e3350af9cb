package history

import (
	"context"
	"errors"
	"time"
)

// besideChange is the number of sessions on each side of a change that Prune keeps.
const besideChange = 10

// windowStep is the distance between the starts of the windows that are searched for changes. It is half a window, so
// that each change is in the middle half of some window.
const windowStep = DefaultLast / 2

// Pruned is an object that Prune removes, with the reason.
type Pruned struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Prune finds the session objects that can be removed, and removes them if apply is set. It keeps sessions younger than
// keep, the first session of each known commit in its series, besideChange sessions on each side of a change, and
// unreadable objects.
func (s *Store) Prune(ctx context.Context, o Options, keep time.Duration, now time.Time, apply bool) ([]Pruned, []Skipped, error) {
	o = o.fillDefaults()
	caches := s.newCaches()
	in, err := s.list(ctx, o.Filter)
	if err != nil {
		return nil, nil, err
	}
	protected, skipped := s.protectChanges(ctx, in, o, caches)
	s.saveCaches(caches)
	unread := map[string]bool{} // unreadable objects stay, and do not count as their commit's first
	for _, one := range skipped {
		unread[one.Name] = true
	}
	var out []Pruned
	var errs []error
	spent := map[string]bool{} // commits with a kept session, by series and commit
	for _, r := range in.refs {
		key := r.series() + " " + r.commit
		if unread[r.name] {
			continue
		}
		if protected[r.name] || !r.at.Add(keep).Before(now) || r.commit != unknownCommit && !spent[key] {
			spent[key] = true
			continue
		}
		if apply {
			if err := s.bucket.Remove(ctx, r.name); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		why := "its commit has another session, and no change is near"
		if r.commit == unknownCommit {
			why = "its commit is unknown, and no change is near"
		}
		out = append(out, Pruned{r.name, why})
	}
	return out, append(in.skipped, skipped...), errors.Join(errs...)
}

// protectChanges returns the objects within besideChange sessions of any metric's change. It searches overlapping
// windows, because the work grows with the square of a window's length.
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
