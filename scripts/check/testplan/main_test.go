package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func module(t *testing.T) []source {
	t.Helper()
	sources, err := read(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// Every way to start a goroutine puts its package under the race detector, in code and in tests, and nothing else does.
func TestConcurrentPackages(t *testing.T) {
	const test = "package p; import \"testing\"; func TestX(t *testing.T) {"
	plant := func(_, text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{}
	for dir, code := range map[string]string{
		"statement":  "func f() { go f() }",
		"group":      "func f() { var g sync.WaitGroup; g.Go(f) }",
		"timer":      "func f() { time.AfterFunc(1, f) }",
		"none/lock":  "var mu sync.Mutex",
		"none/once":  "var f = sync.OnceValue(func() int { return 1 })",
		"none/plain": "func f() { println(`go f()`) } // go f()",
	} {
		root[dir+"/p.go"] = plant(dir, "package p\n"+code)
		root[dir+"/p_test.go"] = plant(dir, test+"}")
	}
	root["intest/p.go"] = plant("", "package p")
	root["intest/p_test.go"] = plant("", test+" go f() }")
	root["none/locktest/p_test.go"] = plant("", test+" var mu sync.Mutex; mu.Lock() }")
	root["none/untested/p.go"] = plant("", "package p; func f() { go f() }")
	root["none/leftout/p_test.go"] = plant("", "//go:build !race\n\n"+test+" go f() }")
	root["none/testdata/p_test.go"] = plant("", test+" go f() }")
	sources, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"group", "intest", "statement", "timer"}
	if got := selectPackages(sources, source.isConcurrent); !slices.Equal(got, want) {
		t.Errorf("under the race detector are %v, want %v", got, want)
	}
}

var (
	statement = regexp.MustCompile(`(?m)^\s*(defer )?go (func\(|\w[\w.]*\()`)
	comment   = regexp.MustCompile(`(?m)^// \w`)
	leftOut   = regexp.MustCompile(`(?m)^//go:build .*!race`)
	twin      = regexp.MustCompile(`// By day (Test\w+)`)
	testName  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestEveryTestHasARun reads the whole module: `make test` runs every package whole; a package with a go statement is among
// those of `make race`; a file that the detector leaves out gives the reason; and what only the night runs has a test
// by day.
func TestEveryTestHasARun(t *testing.T) {
	sources := module(t)
	race, night := selectPackages(sources, source.isConcurrent), selectPackages(sources, source.isNightly)
	byDay, nightly := make(map[string]bool), 0
	texts := make(map[string]string)
	for _, s := range sources {
		text, err := os.ReadFile("../../../" + s.path)
		if err != nil {
			t.Fatal(err)
		}
		texts[s.path] = string(text)
		if s.isTest() && (s.only == nil || s.only.Eval(buildTags())) {
			for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
				byDay[dirOf(s.path)+" "+m[1]] = true
			}
		}
	}
	for _, s := range sources {
		text, dir := texts[s.path], dirOf(s.path)
		head, _, _ := strings.Cut(text, "\nfunc ")
		if leftOut.MatchString(head) && s.isTest() {
			if !comment.MatchString(head) {
				t.Errorf("%s does not give the reason why the race detector leaves it out", s.path)
			}
		} else if statement.MatchString(text) && !slices.Contains(race, dir) && slices.ContainsFunc(sources, func(o source) bool { return o.isTest() && dirOf(o.path) == dir }) {
			t.Errorf("%s starts goroutines, and make race leaves out its package", s.path)
		}
		if !s.isNightly() {
			continue
		}
		if nightly++; !slices.Contains(night, dir) {
			t.Errorf("%s is not in make nightly", s.path)
		}
		twins := twin.FindAllStringSubmatch(text, -1)
		if tests := testName.FindAllString(text, -1); len(twins) < len(tests) {
			t.Errorf("%s has %d tests for the night and names %d tests by day; write // By day TestX above each", s.path, len(tests), len(twins))
		}
		for _, m := range twins {
			if !byDay[dir+" "+m[1]] {
				t.Errorf("%s names %s, which make test does not have", s.path, m[1])
			}
		}
	}
	if len(race) < 20 || nightly == 0 || len(byDay) < 1000 {
		t.Errorf("%d packages for the race detector, %d files for the night, %d tests: the module was not read", len(race), nightly, len(byDay))
	}
}

// make test and make race narrow nothing.
func TestMakefileFollowsThePlan(t *testing.T) {
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"test":    "\n\tgo test -p $(JOBS) -timeout 30m ./...\n",
		"race":    "\n\tpackages=$$(go run ./scripts/check/testplan race); go test -p $(JOBS) -timeout 30m -vet=off -race $$packages\n",
		"nightly": "\n\tpackages=$$(go run ./scripts/check/testplan nightly); go test -timeout 60m -vet=off -tags nightly $$packages\n",
	} {
		_, recipe, _ := strings.Cut(string(makefile), "\n"+target+": ##")
		if _, recipe, _ = strings.Cut(recipe, "\n"); !strings.HasPrefix("\n"+recipe, want) {
			t.Errorf("make %s begins with %.100q, want %q", target, recipe, want)
		}
	}
}

func dirOf(file string) string {
	if i := strings.LastIndex(file, "/"); i >= 0 {
		return file[:i]
	}
	return "."
}
