package input

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
)

// OpenStore opens the store of baselines in the folder asked; "" means the default folder.
func OpenStore(asked string) (*baseline.Store, error) {
	dir, err := baseline.Dir(asked, os.Getenv)
	if err != nil {
		return nil, err
	}
	return baseline.Open(dir), nil
}

// StoredFit returns the sessions, oldest first, of the stored baseline that fits a run: same workload, preset, mode,
// device and model knobs. dir is the folder of the baselines; "" means the default.
func StoredFit(r *gpuprof.Run, dir string) ([]*compare.Result, error) {
	store, err := OpenStore(dir)
	if err != nil {
		return nil, err
	}
	b, err := store.Find(baseline.FingerprintOf(r))
	if err != nil {
		return nil, err
	}
	return b.Results(), nil
}

// WriteBaselines prints baselines as JSON.
func WriteBaselines(a *cli.App, all []*baseline.Baseline) error {
	e := json.NewEncoder(a.Stdout)
	e.SetIndent("", " ")
	return e.Encode(map[string]any{"baselines": append([]*baseline.Baseline{}, all...)}) // encode no baselines as [], not null
}

// ListBaselines prints the baselines in the folder dir; "" means the default folder. If workload is not empty, it lists
// only the baselines of this workload.
func ListBaselines(a *cli.App, dir, format, workload string) error {
	store, err := OpenStore(dir)
	if err != nil {
		return err
	}
	all, broken := store.List()
	if workload != "" {
		all = slices.DeleteFunc(all, func(x *baseline.Baseline) bool { return !strings.HasPrefix(path.Base(x.Name), workload+"-") })
	}
	if format == "json" {
		return errors.Join(append([]error{WriteBaselines(a, all)}, broken...)...)
	}
	rows := [][]string{{"BASELINE", "SESSIONS", "LATEST", "MACHINE"}}
	for _, x := range all {
		last := x.Sessions[len(x.Sessions)-1]
		rows = append(rows, []string{x.Name, strconv.Itoa(len(x.Sessions)), last.Started.Format(time.DateOnly), cmp.Or(last.Machine, "-")})
	}
	if len(all) == 0 {
		a.Note("no baseline in %s; add one with gpuprof history baseline add RUN", store.Path())
		return errors.Join(broken...)
	}
	return errors.Join(append([]error{cli.Columns(a.Stdout, rows)}, broken...)...)
}
