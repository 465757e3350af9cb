package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Order maps commits, by their first twelve digits, to their positions on the checked-out branch.
type Order map[string]int

// NewOrder builds the order from a list of commits, the latest first, as git rev-list --first-parent prints it.
func NewOrder(commits []string) Order {
	out := make(Order, len(commits))
	for i, c := range commits {
		out[Commit{ID: c}.Short()] = len(commits) - i
	}
	return out
}

type sortEntry struct {
	commit  string    // short
	at      time.Time // of the commit, or of the measurement
	started time.Time
	hash    string
}

// sortSessions returns the sessions' indices in the order of the branch, then of time. A session of another branch
// comes after the latest commit of this branch that is not later than the session's own commit.
func (o Order) sortSessions(all []sortEntry) []int {
	type known struct {
		at   time.Time
		rank int
	}
	var on []known
	for _, p := range all {
		if rank, ok := o[p.commit]; ok {
			on = append(on, known{p.at, rank})
		}
	}
	slices.SortFunc(on, func(a, b known) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.rank, b.rank)) })
	for i := 1; i < len(on); i++ {
		on[i].rank = max(on[i].rank, on[i-1].rank)
	}
	type key struct {
		rank, off int
		at        time.Time
	}
	keys, out := make([]key, len(all)), make([]int, len(all))
	for i, p := range all {
		out[i] = i
		if rank, ok := o[p.commit]; ok {
			keys[i] = key{rank: rank}
			continue
		}
		keys[i] = key{off: 1, at: p.at}
		if n := sort.Search(len(on), func(k int) bool { return on[k].at.After(p.at) }); n > 0 {
			keys[i].rank = on[n-1].rank
		}
	}
	slices.SortStableFunc(out, func(i, j int) int {
		a, b := keys[i], keys[j]
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.off, b.off), a.at.Compare(b.at), all[i].started.Compare(all[j].started), cmp.Compare(all[i].hash, all[j].hash))
	})
	return out
}
