package compare_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// A field that was misspelt would be allowed in vain, without a word.
func TestAllowedFieldsExist(t *testing.T) {
	rng := rand.New(rand.NewPCG(60, 1))
	old := result("old", timed("x", noisy(rng, 6, 10, 1, 0.002)))
	old.Env, old.Facts = map[string]string{"driver": "1", "cpu": "a"}, map[string]string{"governor": "x"}
	old.Code, old.Knobs = map[string]string{"commit": "c"}, map[string]compare.Knob{"threads": {Value: "2"}}
	now := *old
	now.Env = map[string]string{"driver": "2", "cpu": "a", "mig": "on"}
	ways := map[string]func(now *compare.Result, o compare.Options) error{
		"files": func(now *compare.Result, o compare.Options) error { _, err := compare.Compare(old, now, o); return err },
		"baseline": func(now *compare.Result, o compare.Options) error {
			_, err := compare.CompareStored([]*compare.Result{old}, now, o)
			return err
		},
		"gate": func(now *compare.Result, o compare.Options) error {
			_, err := compare.NewGate(o).Stage1([]compare.Block{{A: old, B: now}})
			return err
		},
	}
	for way, judge := range ways {
		for _, field := range []string{"driver", "cpu", "mig", "governor", "commit", "threads"} {
			if err := judge(&now, compare.Options{AllowMismatch: []string{field}}); err != nil {
				t.Errorf("%s: %v", way, err)
			}
		}
		err := judge(&now, compare.Options{AllowMismatch: []string{"driver", "Driver"}})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), `did you mean "driver"`) || !strings.Contains(err.Error(), "differ in driver, mig") {
			t.Errorf("%s: %v", way, err)
		}
		err = judge(old, compare.Options{AllowMismatch: []string{"nothing-like-it"}})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "have commit, cpu, driver, governor, threads") {
			t.Errorf("%s, nothing differs: %v", way, err)
		}
	}
}
