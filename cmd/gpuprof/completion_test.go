//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completions are what a shell offers for a command line, in any order.
var completions = []struct{ typed, want string }{
	{"ru", "run"},
	{"run e3", "e3nn"},
	{"run ", "e3nn gruflow collate gridsim serving watch record --"},
	{"run wat", "watch"},
	{"run watch ab", "about.json"},
	{"run --check gri", "gridsim"},
	{"run record --st", "--steps"},
	{"ru", "run"},
	{"run e3nn --pres", "--preset"},
	{"run e3nn --st", ""},
	{"run --sta", "--stacks"},
	{"run e3nn --preset sm", "small"},
	{"run e3nn --preset=sm", "--preset=small"},
	{"run e3nn --mode h", "hot host"},
	{"run e3nn --set imp", "impl="},
	{"run e3nn --set impl=", "impl=csr impl=fused impl=unfused"},
	{"run e3nn --set impl=fused,c", "impl=fused,csr"},
	{"run e3nn --device ho", "host"},
	{"run e3nn -o ab", "about.json"},
	{"explain list kn", "knobs"},
	{"list kn", "knobs"}, // a verb of an earlier version
	{"report ab", "about.json"},
	{"run --check e3nn --vectors=ab", "--vectors=about.json"},
	{"completion ", "bash zsh fish"},
	{"history baseline ", "add list show rm path"},
	{"history baseline sh", "show"},
	{"history baseline add --mach", "--machine"},
	{"history baseline --dir x ad", "add"},
	{"history baseline add ab", "about.json"},
	{"baseline sh", "show"},
	{"help history base", "baseline"},
	{"help history baseline r", "rm"},
	{"run -- gpuprof-progr", "gpuprof-program"},
	{"run --steps 3 -- gpuprof-program ab", "about.json"},
	{"gate --against main -- gpuprof-progr", "gpuprof-program"},
	{"fle", "fleet"},
	{"fleet --mi", "--missing"},
	{"fleet --to", "--top"},
	{"fleet ab", "about.json"},
	{"history ", "show add check prune baseline"},
	{"history add ab", "about.json"},
	{"history check --thr", "--threshold"},
	{"help hist", "history"},
	{"bisect --fas", "--faster"},
	{"bisect a..b g", "gruflow gridsim"},
	{"check e3nn --vec", "--vectors"},
	{"doctor --ro", "--rounds"},
	{"explain hidden-s", "hidden-sync"},
	{"explain lis", "list"},
	{"explain schema fl", "fleet"},
	{"list -- ab", ""},
	{"nonsense x", ""},
}

// The scripts are tried in the shells themselves. CI installs all three.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	for shell, script := range map[string]string{"bash": tryBash, "zsh": tryZsh, "fish": tryFish} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatalf("%s is not installed, and CI tries the completion in every shell; run: apt-get install %[1]s", shell)
				}
				t.Skipf("%s is not installed: its completion is NOT TESTED on this machine; apt-get install %[1]s", shell) //nolint:forbidigo // a shell is no part of the repository; CI has all three and fails without
			}
			answers := askShell(t, shell, script)
			for i, c := range completions {
				got := strings.Fields(answers[i])
				want := strings.Fields(c.want)
				if shell == "bash" { // what it counts as a word of its own is not repeated
					got = rejoined(c.typed, got)
				}
				slices.Sort(got)
				slices.Sort(want)
				if got = slices.Compact(got); !slices.Equal(got, want) {
					t.Errorf("%s completes %q to %q, want %q", shell, c.typed, got, want)
				}
			}
		})
	}
}

// rejoined puts what bash has of the last word already, up to its last = or :, before
// each candidate.
func rejoined(typed string, got []string) []string {
	last := typed[strings.LastIndex(typed, " ")+1:]
	has := last[:strings.LastIndexAny(last, "=:")+1]
	for i := range got {
		got[i] = has + got[i]
	}
	return got
}

// askShell has a shell complete every line and gives its candidates.
func askShell(t *testing.T, shell, script string) []string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	var lines strings.Builder
	for _, c := range completions {
		lines.WriteString("gpuprof " + c.typed + "\n")
	}
	for _, err := range []error{
		os.Mkdir(bin, 0o700), os.Symlink(selfPath(t), filepath.Join(bin, "gpuprof")),
		os.WriteFile(filepath.Join(bin, "gpuprof-program"), []byte("#!/bin/sh\n"), 0o700), //nolint:gosec // a program has to be executable
		os.Mkdir(filepath.Join(dir, "work"), 0o700),
		os.WriteFile(filepath.Join(dir, "work", "about.json"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(dir, "lines"), []byte(lines.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "try"), []byte(script), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), shell, filepath.Join(dir, "try"))
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TERM=dumb", "LINES_FILE="+filepath.Join(dir, "lines"),
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", shell, err, out, &stderr)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(completions) {
		t.Fatalf("%s gave %d answers of %d\n%s%s", shell, len(answers), len(completions), out, &stderr)
	}
	return answers
}

const tryBash = `
source <(gpuprof completion bash)
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line}
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *[[:space:]] ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _gpuprof || true
    echo "${COMPREPLY[*]}"
done <"$LINES_FILE"
`

const tryFish = `
gpuprof completion fish | source
while read --local --line line
    echo (complete -C "$line" | string replace -r '\t.*' '')
end <$LINES_FILE
`

// An interactive zsh completes in a terminal of its own; compadd says what it is given. A
// line is typed once the line editor says that it reads: before that the terminal itself
// edits, and would take the control-U behind a tab as an order to forget both.
const tryZsh = `
zmodload zsh/zpty zsh/zselect
cat >"$HOME/inner" <<'END'
PROMPT=
autoload -Uz compinit && compinit -u -d "$HOME/dump"
source <(gpuprof completion zsh)
bindkey '^I' complete-word
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits
    builtin compadd -A hits "$@"
    local prefix=${IPREFIX:-}
    hits=($prefix$^hits)
    (( $#hits )) && print -r -- "${(j: :)hits}" >>"$HOME/hits"
}
zle-line-init() { print -r READS >"$HOME/reads" }
zle -N zle-line-init
END
reads() { until [[ -s $HOME/reads ]]; do zpty -r -t z noise || zselect -t 1; done }
zpty z zsh -f -i
zpty -w z "source $HOME/inner"
reads
while IFS= read -r line; do
    : >"$HOME/hits"
    rm -f "$HOME/reads"
    zpty -n -w z "$line"$'\t\025\n'
    reads
    print -r -- ${$(<"$HOME/hits")}
done <"$LINES_FILE"
zpty -d z
`
