package main

import (
	"os"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// learn takes the spread between sessions from the store that is named, where it holds
// enough sessions of the new side's class. A store of the environment that cannot be
// read is no failure: the spread is then assumed, as it is without one.
func (j *judging) learn(a *app, now *compare.Result, o *compare.Options) error {
	if j.Store == "" && os.Getenv(storeVariable) == "" || j.SessionSpread != nil {
		return nil
	}
	store, err := openHistory(j.Store)
	if err == nil {
		run, done := newChildren(a)
		defer done()
		o.Learned, err = store.Learn(a.ctx, now, run.order())
	}
	switch {
	case err != nil && j.Store == "":
		a.note("warning: the spread between sessions is assumed, since the store of %s cannot be used: %v", storeVariable, err)
		return nil
	case err == nil && len(o.Learned.Spread) == 0:
		a.note("the store %s holds fewer than %d sessions of this machine and these settings, so that the spread between sessions is not learned from it", store, compare.MinSessions)
	}
	return err
}

// learnScatter takes from the store of the environment by how much builds of equal code
// differ, where commits of this class were measured more than once.
func (c *bisectCmd) learnScatter(r *bisectRunner, of *compare.Result, metric string) {
	if c.Scatter != nil || os.Getenv(storeVariable) == "" {
		return
	}
	store, err := openHistory("")
	var learned compare.Learned
	if err == nil {
		learned, err = store.Learn(r.run.app.ctx, of, r.run.order())
	}
	if err != nil {
		r.run.app.note("warning: the scatter between builds is assumed, since the store of %s cannot be used: %v", storeVariable, err)
		return
	}
	if v, ok := learned.Scatter[metric]; ok {
		r.s.Options.Scatter, r.s.Options.ScatterFrom = v, "history"
	}
}
