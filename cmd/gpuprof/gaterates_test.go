//go:build !race

// Programs are started here, which the race detector does not see.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// noisyProgram prints ten times of one process: 1 ms times FACTOR, with 1 % of noise between
// processes and between samples. MODEL adds slow processes (15 % of them, 20 to 100 % slow) or a
// slow clock for the first or last half of each process. SEED and the number of processes so far
// decide what is drawn.
const noisyProgram = `#!/bin/sh
n=$(($(cat "$COUNT" 2>/dev/null || echo 0) + 1))
echo $n >"$COUNT"
exec awk -v seed=$((SEED * 4096 + n)) -v model="$MODEL" -v factor=FACTOR '
function u() { x = (x * 16807) % 2147483647; return x / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
BEGIN {
	x = (seed * 48271 + 12345) % 2147483647
	for (i = 0; i < 8; i++) u()
	base = factor * exp(0.01 * normal())
	if (model == "slow" && u() < 0.15) base *= 1.2 + 0.8 * u()
	late = u() < 0.5
	for (i = 0; i < 10; i++)
		printf "BenchmarkX 100 %.1f ns/op\n", 1000000 * base * exp(0.01 * normal()) * (model == "throttled" && (i < 5) == late ? 1.3 : 1)
}'
`

// The whole program gates made programs as the simulated gates do: an unchanged one never fails,
// and one that is 10 % slower is found. By night 40 gates of each kind, by day one.
func TestGatesOfMadeNoise(t *testing.T) {
	t.Parallel()
	gates := 1
	if nightly {
		gates = 40
	}
	dir := t.TempDir()
	for name, factor := range map[string]string{"old": "1", "same": "1", "slower": "1.1"} {
		text := []byte(strings.Replace(noisyProgram, "FACTOR", factor, 1))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, model := range []string{"steady", "slow", "throttled"} {
		codes := map[string]map[int]int{"same": {}, "slower": {}}
		for program, count := range codes {
			for i := range gates {
				cmd := selfCommand(t, dir, "gate", "--against", "./old", "--budget", "60s", "--seed", fmt.Sprint(i+1), "--", "./"+program)
				cmd.Env = append(cmd.Env, "MODEL="+model, fmt.Sprintf("SEED=%d", i+1), "COUNT="+filepath.Join(t.TempDir(), "count"))
				said, _ := cmd.CombinedOutput()
				code := cmd.ProcessState.ExitCode()
				if code != 0 && code != cli.ExitRegression && code != cli.ExitInconclusive {
					t.Fatalf("%s, %s: exit %d\n%s", model, program, code, said)
				}
				count[code]++
			}
		}
		t.Logf("%s: exit codes unchanged %v, 10 %% slower %v", model, codes["same"], codes["slower"])
		if n := codes["same"][cli.ExitRegression]; n > 0 {
			t.Errorf("%s: %d of %d gates of an unchanged program fail", model, n, gates)
		}
		if n := codes["slower"][cli.ExitRegression]; gates > 1 && n < gates*85/100 {
			t.Errorf("%s: %d of %d gates find 10 %%", model, n, gates)
		}
	}
}
