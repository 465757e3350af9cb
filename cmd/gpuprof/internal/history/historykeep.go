package history

import (
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/history"
)

func tellSkipped(a *cli.App, skipped []history.Skipped) {
	for _, s := range skipped {
		a.Note("warning: %s was not used: %s", s.Name, s.Why)
	}
}

// PruneCmd has the flags of gpuprof history prune.
type PruneCmd struct {
	Keep time.Duration `default:"400d" placeholder:"TIME" help:"Keep every session of so many days (400d); of older ones one a commit, and those near a change."`
	Yes  bool          `help:"Remove what is listed."`
}

// Help implements kong.HelpProvider.
func (PruneCmd) Help() string {
	return "Lists all sessions older than --keep but one a commit. Sessions within ten of a change stay.\n\n" + cli.Examples(
		"gpuprof history prune --store perf",
		"gpuprof history prune --store perf --keep 200d --yes",
	)
}

// Run implements gpuprof history prune.
func (c *PruneCmd) Run(a *cli.App, h *Cmd) error {
	store, err := h.open()
	if err != nil {
		return err
	}
	run, done := judge.NewChildren(a)
	defer done()
	o := history.Options{Filter: history.Filter{Project: h.Project}, Order: run.Order()}
	pruned, skipped, err := store.Prune(a.Ctx, o, c.Keep, time.Now(), c.Yes)
	for _, p := range pruned {
		fmt.Fprintf(a.Stdout, "%s: %s\n", p.Name, p.Why)
	}
	tellSkipped(a, skipped)
	switch {
	case err != nil:
	case c.Yes:
		a.Note("removed %s", gpuprof.Plural(len(pruned), "object"))
	case len(pruned) > 0:
		a.Note("nothing was removed; --yes removes %s", gpuprof.Plural(len(pruned), "object"))
	default:
		a.Note("there is nothing to remove")
	}
	return err
}
