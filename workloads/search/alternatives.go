package search

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
)

// Change is one knob with its current and its new value.
type Change struct{ Knob, From, To string }

// Alternatives lists the changes to try. Each changes one knob from its value in base to another value. Model knobs,
// which change the computation, knobs that name a file, and knobs in fixed are left out. If the parameter only is not
// empty, all knobs outside this list are left out too, but knobs in both only and fixed are changed. An unknown or
// model knob in only is an ErrUsage.
//
// A knob's new values are its list Try, then its other values. Without a list Try a whole number is also doubled,
// halved, quadrupled and quartered; an empty Try gives none. The changes begin with the first value of each knob, in an
// order that seed shuffles; then come the second values, and so on.
func Alternatives(w workloads.Workload, base gpuprof.Settings, only []string, fixed gpuprof.Settings, seed uint64) ([]Change, error) {
	return listAlternatives(w, tune.Time, base, only, fixed, seed)
}

// listAlternatives does the work of Alternatives for a goal. For the goal latency it uses the list TryUnderLoad of
// knobs that have one, because more knobs act under load than on a step.
func listAlternatives(w workloads.Workload, g tune.Goal, base gpuprof.Settings, only []string, fixed gpuprof.Settings, seed uint64) ([]Change, error) {
	if err := checkOnly(w, only); err != nil {
		return nil, err
	}
	var byKnob [][]Change
	for _, k := range w.Knobs() {
		if !isTunable(k, only, fixed) {
			continue
		}
		if g == tune.Latency && len(k.TryUnderLoad) > 0 {
			k.Try = k.TryUnderLoad
		}
		var of []Change
		for _, v := range alternativeValues(k, base[k.Name]) {
			of = append(of, Change{k.Name, base[k.Name], v})
		}
		byKnob = append(byKnob, of)
	}
	rng := rand.New(rand.NewPCG(seed, 0x74756e65)) // a random stream of its own: workloads draw from the seed, too
	rng.Shuffle(len(byKnob), func(i, j int) { byKnob[i], byKnob[j] = byKnob[j], byKnob[i] })
	var out []Change
	for n, more := 0, true; more; n++ {
		more = false
		for _, of := range byKnob {
			if n < len(of) {
				out, more = append(out, of[n]), true
			}
		}
	}
	return out, nil
}

func isTunable(k workloads.Knob, only []string, fixed gpuprof.Settings) bool {
	_, isFixed := fixed[k.Name]
	named := slices.Contains(only, k.Name)
	return !k.Model && !k.NamesFile && (!isFixed || named) && (len(only) == 0 || named)
}

func checkOnly(w workloads.Workload, only []string) error {
	var names []string
	for _, k := range w.Knobs() {
		if !k.Model {
			names = append(names, k.Name)
		}
	}
	for _, n := range only {
		if slices.Contains(names, n) {
			continue
		}
		if slices.ContainsFunc(w.Knobs(), func(k workloads.Knob) bool { return k.Name == n }) {
			return gpuprof.Errorf(gpuprof.ErrUsage, "tuning knob %s: it is a model knob, which changes the computation and is never tuned", n).WithFix("the tuning knobs of %s are %s", w.Name(), strings.Join(names, ", "))
		}
		return gpuprof.Errorf(gpuprof.ErrUsage, "tuning knob %s: workload %s has no such knob", n, w.Name()).WithFix("its tuning knobs are %s%s", strings.Join(names, ", "), gpuprof.DidYouMean(n, names))
	}
	return nil
}

func alternativeValues(k workloads.Knob, from string) []string {
	special := k.Try != nil
	if special && len(k.Try) == 0 {
		return nil
	}
	candidates := slices.Concat(k.Try, k.Values)
	if n, err := strconv.Atoi(from); err == nil && !special && k.Parse != nil {
		for _, v := range []int{2 * n, n / 2, 4 * n, n / 4} {
			candidates = append(candidates, strconv.Itoa(v))
		}
	}
	var out []string
	for _, c := range candidates {
		v, err := k.Canonical(c)
		if err == nil && v != from && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// With returns a copy of the settings s with the changes made.
func With(s gpuprof.Settings, changes ...Change) gpuprof.Settings {
	out := maps.Collect(maps.All(s))
	for _, c := range changes {
		out[c.Knob] = c.To
	}
	return out
}
