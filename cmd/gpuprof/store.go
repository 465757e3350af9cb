package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/history"
)

// storeVariable is the environment variable that names the store of a history.
const storeVariable = "GPUPROF_STORE"

func openHistory(name string) (*history.Store, error) {
	name = cmp.Or(name, os.Getenv(storeVariable))
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening the store: none was named").WithFix("give --store FOLDER or --store s3://bucket/prefix, or set %s", storeVariable)
	}
	b, err := bucket.Open(name, bucket.Words{What: "store", Give: "with --store"}, os.Getenv)
	if err != nil {
		return nil, err
	}
	cache := ""
	if dir, err := cli.CacheDir(); err == nil {
		cache = filepath.Join(dir, "history")
	}
	return history.NewStore(b, cache), nil
}

// order is that of the commits of this checkout's branch; nil where there is no
// checkout.
func (c children) order() history.Order {
	out, err := c.git("", "rev-list", "--first-parent", "HEAD")
	if err != nil {
		return nil
	}
	return history.NewOrder(strings.Fields(string(out)))
}

// learn takes the spread between sessions from the store that is named, where it holds
// enough sessions of the new side's class. A store of the environment that cannot be
// read is no failure: the spread is then assumed, as it is without one.
func (j *judging) learn(a *cli.App, now *compare.Result, o *compare.Options) error {
	if j.Store == "" && os.Getenv(storeVariable) == "" || j.SessionSpread != nil {
		return nil
	}
	run, done := newChildren(a)
	defer done()
	learned, store, err := run.learned(j.Store, now)
	switch {
	case err != nil && j.Store == "":
		a.Note("warning: the spread between sessions is assumed, since the store of %s cannot be used: %v", storeVariable, err)
		return nil
	case err == nil && len(learned.Spread) == 0:
		a.Note("the store %s holds fewer than %d sessions of this machine and these settings, so that the spread between sessions is not learned from it", store, compare.MinSessions)
	}
	o.Learned = learned
	return err
}

// learned is what a store, "" for that of the environment, teaches about results like
// one, and the store.
func (c children) learned(from string, like *compare.Result) (out compare.Learned, store *history.Store, err error) {
	if store, err = openHistory(from); err == nil {
		out, err = store.Learn(c.app.Ctx, like, c.order())
	}
	return out, store, err
}
