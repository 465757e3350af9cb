package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/formats"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// actionScript runs a step of action.yml as its runner does, with every input at what the file has, in a folder of its own.
type actionScript struct {
	dir, temp string
	env       map[string]string
}

func newAction(t *testing.T) *actionScript {
	t.Helper()
	a := &actionScript{dir: t.TempDir(), temp: t.TempDir()}
	a.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": a.temp, "RUNNER_TEMP": a.temp, "GITHUB_OUTPUT": filepath.Join(a.temp, "outputs"), "RETRY_DELAY": "0",
		"AGAINST": "main", "BUDGET": "10m", "BUILD": "", "COMMAND": "", "WORKLOAD": "", "DEVICE": "auto", "ARGUMENTS": "", "THRESHOLD": "", "INCONCLUSIVE": "neutral",
		"COMMENT": "false", "TOKEN": "", "PULL": "", "GITHUB_REPOSITORY": "o/r", "GITHUB_WORKFLOW": "perf", "GITHUB_JOB": "gate",
		"VERSION": "", "SHA256": "", "ACTION_REF": "main", "ACTION_REPOSITORY": "o/r", "ACTION_PATH": filepath.Join(a.temp, "action"), "NO_PROXY": "*",
	}
	return a
}

// run gives what the step printed, and its exit code.
func (a *actionScript) run(t *testing.T, step string) (out string, code int) {
	t.Helper()
	script, err := filepath.Abs("../../scripts/dist/action.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", script, step)
	cmd.Dir = a.dir
	for k, v := range a.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// program puts a script in the place of gpuprof.
func (a *actionScript) program(t *testing.T, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.temp, "gpuprof"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (a *actionScript) outputs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(a.env["GITHUB_OUTPUT"])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestActionInputs: every input is used, and none is pasted into a script, where
// it could be one of its commands.
func TestActionInputs(t *testing.T) {
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	script, err := os.ReadFile("../../scripts/dist/action.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +run: (.*)$`).FindAllStringSubmatch(whole, -1) {
		if strings.Contains(m[1], "${{") || !strings.Contains(m[1], "action.sh") {
			t.Errorf("a script of action.yml: %s", m[1])
		}
	}
	inputs := regexp.MustCompile(`(?m)^  ([a-z0-9-]+): \{description: ".*", default: `).FindAllStringSubmatch(whole, -1)
	if len(inputs) < 14 {
		t.Fatalf("%d inputs found", len(inputs))
	}
	use := regexp.MustCompile(`(?m)^ +([A-Z0-9]+|working-directory): \$\{\{ inputs\.([a-z0-9-]+) \}\}$`)
	used := map[string]string{}
	for _, m := range use.FindAllStringSubmatch(whole, -1) {
		used[m[2]] = m[1]
	}
	for _, in := range inputs {
		name := used[in[1]]
		if name == "" || name != "working-directory" && !strings.Contains(string(script), "$"+name) {
			t.Errorf("the input %s is not used", in[1])
		}
	}
	env := newAction(t).env
	for _, m := range regexp.MustCompile(`(?m)^        ([A-Z_0-9]+): \$\{\{`).FindAllStringSubmatch(whole, -1) {
		if _, there := env[m[1]]; !there {
			t.Errorf("the tests of the script do not set %s", m[1])
		}
	}
}

// TestActionArguments: the inputs reach gpuprof as they were given, whatever a branch
// is called, and the words of a command as a shell would split them.
func TestActionArguments(t *testing.T) {
	const always = "<gate><--against=main><--budget=10m><-o><gate.xml><-o><gate.md><-o><gate.json><-o><gate.html><--force>"
	for name, c := range map[string]struct {
		env  map[string]string // beside AGAINST=main
		want string            // "" is refused: exit code 2, and gpuprof is not started
	}{
		"nothing else":                 {nil, always},
		"a command":                    {map[string]string{"COMMAND": "./bench --filter 'two words' \"a;b\" $HOME `id` *", "BUILD": "make -j2 && echo"}, always + "<--build=make -j2 && echo><--><./bench><--filter><two words><a;b><$HOME><`id`><*>"},
		"a workload":                   {map[string]string{"WORKLOAD": "e3nn", "DEVICE": "cuda:1", "ARGUMENTS": "--set batch=4\n--metric 'step*'\n", "THRESHOLD": "7%"}, always + "<--threshold=7%><e3nn><--device=cuda:1><--set><batch=4><--metric><step*>"},
		"a quote left open":            {map[string]string{"COMMAND": "./bench 'x"}, ""},
		"an argument's quote open":     {map[string]string{"ARGUMENTS": "--threshold \"7%"}, ""},
		"a workload that is a flag":    {map[string]string{"WORKLOAD": "--build=touch pwned"}, ""},
		"a workload of one dash":       {map[string]string{"WORKLOAD": "-o"}, ""},
		"a workload of two dashes":     {map[string]string{"WORKLOAD": "--", "ARGUMENTS": "touch pwned"}, ""},
		"a command among arguments":    {map[string]string{"ARGUMENTS": "--threshold 7% -- touch pwned"}, ""},
		"a command that is a flag":     {map[string]string{"COMMAND": "--build=x"}, always + "<--><--build=x>"},
		"spaces only":                  {map[string]string{"COMMAND": "\n  ", "ARGUMENTS": "\t"}, always},
		"a hostile branch":             {map[string]string{"AGAINST": "--build=$(touch pwned);`touch pwned` -- 'x"}, strings.Replace(always, "=main", "=--build=$(touch pwned);`touch pwned` -- 'x", 1)},
		"a branch called a dash twice": {map[string]string{"AGAINST": "--"}, strings.Replace(always, "=main", "=--", 1)},
		"a verdict that is none":       {map[string]string{"INCONCLUSIVE": "maybe"}, ""},
		"a comment that is none":       {map[string]string{"COMMENT": "yes"}, ""},
	} {
		a := newAction(t)
		a.program(t, "for a; do printf '<%s>' \"$a\"; done >arguments\n")
		maps.Copy(a.env, c.env)
		out, code := a.run(t, "gate")
		if code != 2 && c.want == "" || code != 0 && c.want != "" {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
		got, err := os.ReadFile(filepath.Join(a.dir, "arguments"))
		if err != nil && c.want != "" || string(got) != c.want {
			t.Errorf("%s: gpuprof got %s (%v), want %s", name, got, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(a.dir, "pwned")); err == nil {
			t.Errorf("%s: an input was run", name)
		}
	}
}

// gateJSON is what gpuprof writes of two sides of eight processes each. Each figure is a metric's on either side, 0 for
// a side that lacks it.
func gateJSON(t *testing.T, figures map[string][2]float64) string {
	t.Helper()
	sides := [2]*compare.Result{}
	for side := range sides {
		r := &compare.Result{Source: []string{"old", "new"}[side], Status: gpuprof.Complete}
		for _, name := range slices.Sorted(maps.Keys(figures)) {
			v := figures[name][side]
			if v == 0 {
				continue
			}
			m := compare.MetricData{Metric: compare.Metric{Name: name, Unit: "s"}}
			if strings.HasSuffix(name, "/s") {
				m.Unit, m.HigherIsBetter = "items/s", true
			}
			for k := range 8 {
				m.Runs = append(m.Runs, []float64{v * (1 + 0.0001*float64(k*k%7))})
			}
			r.Metrics = append(r.Metrics, m)
		}
		sides[side] = r
	}
	c, err := compare.Compare(sides[0], sides[1], compare.Options{Judge: true})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := formats.EncodeVerdict(&b, c, cli.Screen{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestActionVerdicts: the exit code of the step and its outputs follow the verdict that gpuprof wrote. Not decided is
// neutral unless it is asked for otherwise; a benchmark that is new never fails, and one that vanished always does.
func TestActionVerdicts(t *testing.T) {
	same := map[string][2]float64{"a": {1, 1}, "b/s": {10, 10}}
	with := func(name string, old, now float64) map[string][2]float64 {
		out := maps.Clone(same)
		out[name] = [2]float64{old, now}
		return out
	}
	vanished := gateJSON(t, with("gone \"quoted\"", 1, 0))
	undecided := strings.Replace(gateJSON(t, same), `"verdict": "pass"`, `"verdict": "inconclusive"`, 1)
	for name, c := range map[string]struct {
		json         string
		exit         int // gpuprof's
		inconclusive string
		want         int
		verdict      string
		ratio        string
		says         string
	}{
		"nothing changed":       {gateJSON(t, same), 0, "neutral", 0, "pass", "1.0000", ""},
		"a time that grew":      {gateJSON(t, with("a", 1, 1.5)), 1, "neutral", 1, "regressed", "1.5000", ""},
		"a rate that fell":      {gateJSON(t, with("b/s", 10, 5)), 1, "pass", 1, "regressed", "2.0000", ""},
		"not decided":           {undecided, 3, "neutral", 0, "inconclusive", "1.0000", "::notice::"},
		"not decided, to fail":  {undecided, 3, "fail", 1, "inconclusive", "1.0000", ""},
		"not decided, to pass":  {undecided, 3, "pass", 0, "inconclusive", "1.0000", ""},
		"a benchmark more":      {gateJSON(t, with("new", 0, 1)), 0, "fail", 0, "pass", "1.0000", ""},
		"a benchmark less":      {vanished, 3, "neutral", 4, "inconclusive", "1.0000", `gone \"quoted\"`},
		"a benchmark less, too": {vanished, 3, "pass", 4, "inconclusive", "1.0000", "Bring them back"},
		"a step failed":         {"", 4, "neutral", 4, "", "", ""},
		"another machine":       {strings.Replace(undecided, `"verdict": "inconclusive"`, `"verdict": "not comparable"`, 1), 3, "neutral", 3, "not comparable", "1.0000", ""},
	} {
		a := newAction(t)
		a.env["INCONCLUSIVE"] = c.inconclusive
		if err := os.WriteFile(filepath.Join(a.temp, "made.json"), []byte(c.json), 0o600); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("[ -s %[1]s/made.json ] && { cp %[1]s/made.json gate.json; echo '# the report' >gate.md; echo page >gate.html; }\nexit %[2]d\n", a.temp, c.exit)
		a.program(t, script)
		if err := os.WriteFile(filepath.Join(a.dir, "gate.json"), []byte(vanished), 0o600); err != nil { // of an earlier step
			t.Fatal(err)
		}
		out, code := a.run(t, "gate")
		if code != c.want || !strings.Contains(out, c.says) || c.says == "" && strings.Contains(out, "::") {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.want, out)
		}
		want := ""
		if c.json != "" {
			want = fmt.Sprintf("verdict=%s\nratio=%s\nreport=%s\n", c.verdict, c.ratio, filepath.Join(a.dir, "gate.html"))
		}
		if got := a.outputs(t); got != want {
			t.Errorf("%s: outputs %q, want %q", name, got, want)
		}
		body, err := os.ReadFile(filepath.Join(a.dir, "gate-comment.md"))
		if err != nil || !strings.HasPrefix(string(body), "<!-- gpuprof gate perf/gate -->\n") || strings.Contains(string(body), "# the report") != (c.json != "") {
			t.Errorf("%s: %v, %s", name, err, body)
		}
	}
}

// releaseServer serves the files of a release v1.2.3.
func releaseServer(t *testing.T, files map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, there := files[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		if body == "broken" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s
}

// released is an archive as a release has it, with a script for the program.
func released(t *testing.T, stem string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	text := "#!/bin/sh\necho released\n"
	if err := w.WriteHeader(&tar.Header{Name: stem + "/gpuprof", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestActionInstalls: the release's archive is taken by its checksum, another checksum is refused and never built
// around, and where there is no release the source is built with the Go that is there.
func TestActionInstalls(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Fatalf("the action has no archive for %s: give this test its own", runtime.GOOS)
	}
	stem := "gpuprof_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	archive := released(t, stem)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(archive)))
	const at = "/v1.2.3/"
	sums := "0000  other.tar.gz\n" + sum + "  " + stem + ".tar.gz\n"
	wrong := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		files   map[string]string
		env     map[string]string
		noGo    bool
		program string // what the program prints, "" where none is left
		code    int
		says    string
	}{
		"a release":                    {map[string]string{at + "SHA256SUMS": sums, at + stem + ".tar.gz": archive}, map[string]string{"VERSION": "v1.2.3"}, true, "released", 0, sum},
		"the release it is used at":    {map[string]string{at + "SHA256SUMS": sums, at + stem + ".tar.gz": archive}, map[string]string{"ACTION_REF": "v1.2.3"}, true, "released", 0, sum},
		"a checksum of its own":        {map[string]string{at + stem + ".tar.gz": archive}, map[string]string{"VERSION": "v1.2.3", "SHA256": sum}, true, "released", 0, sum},
		"another checksum":             {map[string]string{at + "SHA256SUMS": sums, at + stem + ".tar.gz": archive + "x"}, map[string]string{"VERSION": "v1.2.3"}, false, "", 4, "is expected; nothing of it was run"},
		"not the one that was given":   {map[string]string{at + "SHA256SUMS": sums, at + stem + ".tar.gz": archive}, map[string]string{"VERSION": "v1.2.3", "SHA256": wrong}, false, "", 4, wrong},
		"an archive of something else": {map[string]string{at + stem + ".tar.gz": released(t, "x")}, map[string]string{"VERSION": "v1.2.3", "SHA256": fmt.Sprintf("%x", sha256.Sum256([]byte(released(t, "x"))))}, false, "", 4, "holds no"},
		"no release":                   {nil, map[string]string{"VERSION": "v1.2.3"}, false, "built", 0, "there is no release v1.2.3"},
		"no archive for this machine":  {map[string]string{at + "SHA256SUMS": "0000  other.tar.gz\n"}, map[string]string{"VERSION": "v1.2.3"}, false, "built", 0, "has no archive"},
		"the archive is missing":       {map[string]string{at + "SHA256SUMS": sums}, map[string]string{"VERSION": "v1.2.3"}, false, "built", 0, "HTTP status 404"},
		"the server refuses":           {map[string]string{at + "SHA256SUMS": "broken"}, map[string]string{"VERSION": "v1.2.3"}, false, "built", 0, "HTTP status 403"},
		"no version":                   {nil, nil, false, "built", 0, "no release is named"},
		"the source":                   {nil, map[string]string{"VERSION": "source", "ACTION_REF": "v1.2.3"}, false, "built", 0, "from source"},
		"no release and no Go":         {nil, map[string]string{"VERSION": "v1.2.3"}, true, "", 4, "needs Go"},
		"a version that is none":       {nil, map[string]string{"VERSION": "v1 --next"}, false, "", 2, "give a release"},
	} {
		a := newAction(t)
		a.env["RELEASES"] = releaseServer(t, c.files).URL
		maps.Copy(a.env, c.env)
		tools := filepath.Join(a.temp, "tools")
		if err := errors.Join(os.MkdirAll(tools, 0o700), os.MkdirAll(a.env["ACTION_PATH"], 0o700)); err != nil {
			t.Fatal(err)
		}
		// A Go that writes a program of its own, where the path before it has none.
		if !c.noGo {
			text := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nprintf '#!/bin/sh\\necho built\\n' >\"$2\"\nchmod +x \"$2\"\n"
			if err := os.WriteFile(filepath.Join(tools, "go"), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		a.env["PATH"] = tools + ":" + pathWithout(t, "go", tools+"-others")
		out, code := a.run(t, "install")
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, c.code, c.says, out)
		}
		got, err := exec.CommandContext(t.Context(), filepath.Join(a.temp, "gpuprof")).Output()
		if strings.TrimSpace(string(got)) != c.program || (err == nil) != (c.program != "") {
			t.Errorf("%s: the program printed %q, %v", name, got, err)
		}
	}
}

// pathWithout is a folder with links to the programs that the script needs, and without the one that is named.
func pathWithout(t *testing.T, without, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "sh", "curl", "awk", "sed", "tar", "gzip", "uname", "mktemp", "rm", "mv", "cut", "chmod", "cat", "sha256sum", "shasum"} {
		file, err := exec.LookPath(name)
		if err != nil || name == without {
			continue // one of sha256sum and shasum is enough
		}
		if err := os.Symlink(file, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// gitHub is an API with the comments of pull request 7.
type gitHub struct {
	mu       sync.Mutex
	comments []map[string]any
	refuse   bool
	asked    []string
	tokens   map[string]bool
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r.Method+" "+r.URL.Path)
	g.tokens[r.Header.Get("Authorization")] = true
	var sent map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch {
	case g.refuse:
		http.Error(w, "Resource not accessible by integration", http.StatusForbidden)
	case r.Method == http.MethodGet && r.URL.Path == "/repos/o/r/issues/7/comments":
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		first := min((page-1)*100, len(g.comments))
		_ = json.NewEncoder(w).Encode(append([]map[string]any{}, g.comments[first:min(first+100, len(g.comments))]...))
	case r.Method == http.MethodPost && r.URL.Path == "/repos/o/r/issues/7/comments":
		g.comments = append(g.comments, map[string]any{"id": 1000 + len(g.comments), "body": sent["body"]})
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/repos/o/r/issues/comments/"):
		for _, c := range g.comments {
			if "/repos/o/r/issues/comments/"+fmt.Sprint(c["id"]) == r.URL.Path {
				c["body"] = sent["body"]
			}
		}
	default:
		http.NotFound(w, r)
	}
}

// TestActionComments: a pull request gets one comment, which the next run changes, also behind a page of others. A
// server that refuses changes no verdict, and the token is in no argument and no output.
func TestActionComments(t *testing.T) {
	hub := &gitHub{tokens: map[string]bool{}}
	for i := range 130 {
		hub.comments = append(hub.comments, map[string]any{"id": i, "body": "looks <!-- gpuprof gate perf/gate --> good"})
	}
	hub.comments[3]["body"] = nil
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)
	a := newAction(t)
	maps.Copy(a.env, map[string]string{"COMMENT": "true", "PULL": "7", "TOKEN": "s3cret", "GITHUB_API_URL": server.URL})
	last := func() string { return fmt.Sprint(hub.comments[len(hub.comments)-1]["body"]) }
	for _, report := range []string{"first \"report\" über 5 %", "second report"} {
		a.program(t, "echo '"+report+"' >gate.md\n")
		out, code := a.run(t, "gate")
		if code != 0 || strings.Contains(out, "s3cret") || strings.Contains(out, "::") {
			t.Errorf("exit code %d: %s", code, out)
		}
		if want := "<!-- gpuprof gate perf/gate -->\n" + report + "\n"; len(hub.comments) != 131 || last() != want {
			t.Errorf("%d comments, the last %q, want %q", len(hub.comments), last(), want)
		}
	}
	if d := cmp.Diff(map[string]bool{"Bearer s3cret": true}, hub.tokens); d != "" {
		t.Error(d)
	}
	a.env["GITHUB_JOB"] = "other"
	a.program(t, "echo third >gate.md\nexit 1\n")
	if out, code := a.run(t, "gate"); code != 1 || len(hub.comments) != 132 {
		t.Errorf("another job: %d comments, exit code %d: %s", len(hub.comments), code, out)
	}
	hub.refuse = true
	a.program(t, "echo fourth >gate.md\n")
	if out, code := a.run(t, "gate"); code != 0 || !strings.Contains(out, "::warning::") || !strings.Contains(out, "pull-requests: write") {
		t.Errorf("refused: exit code %d: %s", code, out)
	}
	asked := len(hub.asked)
	a.env["PULL"] = ""
	if out, code := a.run(t, "gate"); code != 0 || len(hub.asked) != asked || !strings.Contains(out, "this is no pull request") {
		t.Errorf("a push: exit code %d: %s", code, out)
	}
}
