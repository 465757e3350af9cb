package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented is a command of README.md or of docs/, with the page it stands on.
type documented struct{ page, command string }

// inlineCommand is a command between backquotes, behind a program that starts it or pipes into it.
var inlineCommand = regexp.MustCompile("`(?:[^`]*[|(] ?)?(gpuprof [^`]+)`")

// launched is what may stand before a command in a code block: a launcher of ranks, a
// step of a workflow, a condition of a shell.
var launched = regexp.MustCompile(`^(?:srun|mpirun|torchrun|run:|- run:|- if .*; then|-|source <\() ?(?:-\S+ (?:[0-9]+ )?)*(gpuprof [^;)]+)`)

// documentedCommands returns the commands in code blocks and between backquotes.
func documentedCommands(t *testing.T) (out []documented) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			var found []string
			switch {
			case strings.HasPrefix(line, "```"):
				fenced = !fenced
			case fenced && strings.HasPrefix(line, "gpuprof "):
				found = []string{line}
			case fenced:
				if m := launched.FindStringSubmatch(line); m != nil {
					found = []string{m[1]}
				}
			case !fenced:
				for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
					found = append(found, m[1])
				}
			}
			for _, c := range found {
				c, _, _ = strings.Cut(c, "  ") // an explanation beside it
				c, _, _ = strings.Cut(c, " >")
				for part := range strings.SplitSeq(c, " && ") {
					out = append(out, documented{filepath.Base(page), part})
				}
			}
		}
	}
	return out
}

// placeholders are what a page writes for a name of the reader's, and what the scripts
// that run its commands have in its place.
var placeholders = strings.NewReplacer("WORKLOAD", "e3nn", "--vectors FILE", "--vectors vectors.json", "report FILE --plot KIND", "report run.json --plot stages", "VERB", "gate",
	"TRACE", "trace.json.gz", "DIR", "profile", "explain RULE", "explain explicit-sync", "explain NAME", "explain explicit-sync", "compare OLD NEW", "compare trace.json.gz trace.json.gz", "gate OLD NEW", "gate old.json new.json", "-o NEW", "-o recorded", `"MIG 1g.10gb"`, "'MIG 1g.10gb'",
	"\"THE MACHINE\"", "'a machine'", "\"gpu-record, part baselines\"", "'by hand'", "results/baselines/*.json.gz", "six.json", "profile/plugins/profile/*/*.xplane.pb", "jax.xplane.pb", "| source", "",
	"/shared/", "", "bisect origin/main..HEAD", "bisect v1.4..main", `bisect "$CI_MERGE_REQUEST_DIFF_BASE_SHA..HEAD"`, "bisect v1.4..main",
	"bisect GOOD..BAD -- CMD", "bisect v1.4..main --build ./build.sh -- ./bench", "bisect v1.4..main -- ./bench", "bisect v1.4..main --build ./build.sh -- ./bench")

// verbAlone is a verb that a sentence speaks of, not a command to type.
var verbAlone = regexp.MustCompile(`^gpuprof (FILE…?|profile|run( --)?( --(nsys|cuda) -- …)?|analyze|gate|compare|report|run --check( \w+ --vectors)?|run (watch|record) DIR|tune( --claims)?|history baseline add|doctor)$`)

// elsewhere are commands that no script runs as they stand, and where the same is tried.
func elsewhere() map[string]string {
	inTurn := "a build of main takes minutes; gate_turns.txtar and TestTurns measure against a program that is built"
	program := "it runs a program for minutes; tune_program.txtar has a budget of one look, TestWholeProgram a whole search"
	cards := "it needs figures of GPUs, and the simulated driver has none; TestFleetAgain and TestAgainstReference make them"
	server := "it needs a server of profiles; TestHelpExamples and internal/push have one"
	shown := "an answer shows it, in which the reader puts the program; record.txtar and analyze.txtar run such commands with one"
	return map[string]string{
		"gpuprof run e3nn --preset small --device host --set impl=unfused,csr": "a comparison suggests it; sweep.txtar sweeps over impl", "gpuprof bisect 94c644ab28f7..2d848d419486 -- COMMAND": "a history of another repository suggests it; bisect.txtar searches the commits of a script",
		"gpuprof run -o recorded -- YOUR COMMAND": shown, "gpuprof analyze --compare testdata/traces/h200/dataloader-planted.json.gz NEW": shown,
		"gpuprof run e3nn --preset deepaw --device cuda --set precision=fp32,tf32": "an answer shows it, recorded on a GPU; cuda.txtar sets the precision on the simulated driver",
		"gpuprof report run.json --push URL":                                       server, "gpuprof analyze trace.json.gz --push URL": server,
		"gpuprof gate e3nn --against main": inTurn, "gpuprof gate e3nn --plan --against main --device host": inTurn,
		"gpuprof gate serving --set rate=200 --min-time 6s --against main --budget 15m":                            inTurn,
		"gpuprof gate e3nn --against main --device host --budget 10m":                                              inTurn,
		"gpuprof bisect v1.4..main e3nn --device host":                                                             "it builds gpuprof at each commit; bisect.txtar searches the commits of a script",
		"gpuprof bisect HEAD~13..main e3nn --device host":                                                          "it builds seven commits; scripts/record/record_commits.sh workload recorded it",
		"gpuprof tune serving --device host --goal latency --set rate=400 --knob max_batch,max_delay --budget 10m": "it measures for minutes; TestLatencySearch searches by p99 in counted time",
		"gpuprof tune gridsim --preset naive --device host --budget 8m":                                            "it measures for minutes; tune.txtar searches within a counted budget",
		"gpuprof tune -- python train.py":                                                                          program,
		"gpuprof tune --budget 5m -o tune.json -o tune.html -- python train.py":                                    program,
		"gpuprof tune --try 'batch=--batch-size {32,64,128}' -- python train.py {batch}":                           program,
		"gpuprof tune --try OMP_NUM_THREADS=1,2,4 -- ./simulation":                                                 program,
		"gpuprof tune --claims -- python train.py":                                                                 program,
		"gpuprof tune --resume tune.json -- python train.py":                                                       program,
		"gpuprof run --cuda -- ./simulation":                                                                       "it takes the machine's libcupti, if there is one; recorder.txtar lets the program bring its own, TestCUDAReleases records with each release",
		"gpuprof run --cuda --idle -- ./server":                                                                    "the same; recorder_steps.txtar arms a program on the simulated driver",
		"gpuprof fleet check --again":                                                                              cards, "gpuprof fleet check again": cards, "gpuprof fleet -o reference.json": cards, "gpuprof fleet check -o reference.json": cards,
		"gpuprof doctor --bench --against reference.json":                                  cards,
		"gpuprof doctor --bench --format json":                                             cards,
		"gpuprof run serving --set arrivals=http:127.0.0.1:8000 --max-time 2m -o run.json": "it listens until it is asked; TestSoakOutside does, and scripts/check/serving_clients.py with other clients",
		"gpuprof run e3nn --preset small --devices all -o devices.html":                    "it takes the machine's GPUs; TestProcesses measures two simulated ones, devices.txtar has what is refused",
		"gpuprof run -- torchrun …":                                                        "scripts/check/fleet_launchers.sh starts one",
		"gpuprof run e3nn --preset mace-large --set precision=tf32x3 --set streams=3":      "a step of it takes a simulated driver minutes; TestCUDARadial and TestCUDAResultsBesideTheNextStep have both settings",
		"gpuprof gate e3nn --aa --device host":                                             "it measures for minutes; ci.txtar has --aa of a program",
	}
}

// TestDocumentedCommands: every command of the documents is run by a script, as it
// stands there or with more flags behind it, which make it small. On a machine without a
// GPU the scripts run those of a GPU against the simulated driver.
func TestDocumentedCommands(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	byNight, err := filepath.Glob("testdata/nightly/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	scripts = append(scripts, byNight...)
	var all strings.Builder
	for _, s := range scripts {
		text, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	ran := all.String()
	n := 0
	for _, d := range documentedCommands(t) {
		command := strings.TrimSpace(placeholders.Replace(d.command))
		if verbAlone.MatchString(command) {
			continue
		}
		n++
		if elsewhere()[command] != "" {
			continue
		}
		if !regexp.MustCompile(`(?m)^(! )?(exec|exits \d|exitsjson \d|verdict) ` + regexp.QuoteMeta(command) + `( |$)`).MatchString(ran) {
			t.Errorf("docs: %s: no script runs: %s", d.page, command)
		}
	}
	if n < 50 {
		t.Errorf("only %d commands were found", n)
	}
}
