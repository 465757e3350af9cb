package judge

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

// StoreVariable is the environment variable that names the history store.
const StoreVariable = "GPUPROF_STORE"

// OpenHistory opens the history store with the given name, a folder or an s3:// URL; "" means the one that
// GPUPROF_STORE names.
func OpenHistory(name string) (*history.Store, error) {
	name = cmp.Or(name, os.Getenv(StoreVariable))
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening the store: none was named").WithFix("give --store FOLDER or --store s3://bucket/prefix, or set %s", StoreVariable)
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

// Order returns the order of the commits on the current branch, for a history; nil outside of a checkout.
func (c Children) Order() history.Order {
	out, err := c.Git("", "rev-list", "--first-parent", "HEAD")
	if err != nil {
		return nil
	}
	return history.NewOrder(strings.Fields(string(out)))
}

// Learn sets o.Learned, the spread between sessions, from the history of --store or GPUPROF_STORE. The history must
// have enough sessions with the machine and settings of now, the new side. If the store of GPUPROF_STORE cannot be
// read, the default spread remains.
func (j *Flags) Learn(a *cli.App, now *compare.Result, o *compare.Options) error {
	if j.Store == "" && os.Getenv(StoreVariable) == "" || j.SessionSpread != nil {
		return nil
	}
	run, done := NewChildren(a)
	defer done()
	learned, store, err := run.Learned(j.Store, now)
	switch {
	case err != nil && j.Store == "":
		a.Note("warning: the spread between sessions is assumed, since the store of %s cannot be used: %v", StoreVariable, err)
		return nil
	case err == nil && len(learned.Spread) == 0:
		a.Note("the store %s holds fewer than %d sessions of this machine and these settings, so that the spread between sessions is not learned from it", store, compare.MinSessions)
	}
	o.Learned = learned
	return err
}

// Learned returns the spreads that a history shows for results with the machine and settings of like. from names the
// store; "" means GPUPROF_STORE.
func (c Children) Learned(from string, like *compare.Result) (out compare.Learned, store *history.Store, err error) {
	if store, err = OpenHistory(from); err == nil {
		out, err = store.Learn(c.App.Ctx, like, c.Order())
	}
	return out, store, err
}
