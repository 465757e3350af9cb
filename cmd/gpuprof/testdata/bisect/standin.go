// A stand-in for gpuprof: `run WORKLOAD … -o FILE` writes the recorded run of $TEMPLATE as if
// this program had measured it. The constants of the commit say how much longer a stage takes.
// Noise is a function of how many processes there were, so no time is measured.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if noWorkload {
		fmt.Fprintln(os.Stderr, "gpuprof: there is no workload "+os.Args[2])
		os.Exit(2)
	}
	var run map[string]any
	text, err := os.ReadFile(os.Getenv("TEMPLATE"))
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		panic(err)
	}
	n := counted(os.Getenv("COUNT"))
	if kills, _ := strconv.Atoi(os.Getenv("KILLS")); kills > 0 && n > 36 && n%kills == 0 {
		syscall.Kill(os.Getppid(), syscall.SIGINT)
	}
	noise := 1 + float64((n*7919+n*n*31)%1501-750)/50000 // 1.5 % either way
	step := run["step"].(map[string]any)
	for _, s := range run["stages"].([]any) {
		stage := s.(map[string]any)
		if stage["name"] == slowStage {
			each(step, stage["exposed"], func(step, stage float64) float64 { return step + slower*stage })
			each(stage["exposed"], nil, func(x, _ float64) float64 { return x * (1 + slower) })
			launch(stage, extraLaunches)
		}
		each(stage["exposed"], nil, func(x, _ float64) float64 { return x * noise })
	}
	each(step, nil, func(x, _ float64) float64 { return x * noise })
	launch(run, extraLaunches)
	if unfinished {
		run["status"], run["reason"] = "failed", "the device was lost"
	}
	out := slices.Index(os.Args, "-o")
	if text, err = json.Marshal(run); err == nil {
		err = os.WriteFile(os.Args[out+1], text, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// counted says which process this is.
func counted(path string) int {
	text, _ := os.ReadFile(path)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	n++
	if err := os.WriteFile(path, []byte(fmt.Sprint(n)), 0o600); err != nil {
		panic(err)
	}
	return n
}

// each changes the samples of a series by those of another.
func each(series, by any, f func(a, b float64) float64) {
	m, ok := series.(map[string]any)
	if !ok {
		return
	}
	other, _ := by.(map[string]any)
	for i, run := range m["runs"].([]any) {
		samples := run.([]any)
		for j, x := range samples {
			b := 0.0
			if other != nil {
				b = other["runs"].([]any)[i].([]any)[j].(float64)
			}
			samples[j] = f(x.(float64), b)
		}
	}
}

func launch(of map[string]any, more float64) {
	counters := of["counters"].(map[string]any)
	counters["launches"] = counters["launches"].(float64) + more
}
