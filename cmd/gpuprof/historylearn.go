package main

import (
	"os"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/history"
)

// learn takes the spread between sessions from the store that is named, where it holds
// enough sessions of the new side's class. A store of the environment that cannot be
// read is no failure: the spread is then assumed, as it is without one.
func (j *judging) learn(a *app, now *compare.Result, o *compare.Options) error {
	if j.Store == "" && os.Getenv(storeVariable) == "" || j.SessionSpread != nil {
		return nil
	}
	run, done := newChildren(a)
	defer done()
	learned, store, err := run.learned(j.Store, now)
	switch {
	case err != nil && j.Store == "":
		a.note("warning: the spread between sessions is assumed, since the store of %s cannot be used: %v", storeVariable, err)
		return nil
	case err == nil && len(learned.Spread) == 0:
		a.note("the store %s holds fewer than %d sessions of this machine and these settings, so that the spread between sessions is not learned from it", store, compare.MinSessions)
	}
	o.Learned = learned
	return err
}

// learned is what a store, "" for that of the environment, teaches about results like
// one, and the store.
func (c children) learned(from string, like *compare.Result) (out compare.Learned, store *history.Store, err error) {
	if store, err = openHistory(from); err == nil {
		out, err = store.Learn(c.app.ctx, like, c.order())
	}
	return out, store, err
}

// learnScatter takes from the store of the environment by how much builds of equal code
// differ, where commits of this class were measured more than once.
func (c *bisectCmd) learnScatter(r *bisectRunner, of *compare.Result, metric string) {
	if c.Scatter != nil || os.Getenv(storeVariable) == "" {
		return
	}
	learned, _, err := r.run.learned("", of)
	if err != nil {
		r.run.app.note("warning: the scatter between builds is assumed, since the store of %s cannot be used: %v", storeVariable, err)
		return
	}
	if v, ok := learned.Scatter[metric]; ok {
		r.s.Options.Scatter, r.s.Options.ScatterFrom = v, "history"
	}
}
