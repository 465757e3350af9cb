package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Every pattern finds its sentence wherever texts stand, and says line, words and the better ones.
func TestPlantedSentences(t *testing.T) {
	planted := map[string]string{
		"mend what ended it and run again":                "mend",
		"run it on a quieter machine":                     "quieter machine",
		"somebody set application clocks":                 "somebody",
		"energy per step is not to be believed":           "to be believed",
		"how much there is to win at most":                "to win",
		"memory is given back to the driver":              "given back",
		"all starving is paid from that lead":             "paid from",
		"memory is pinned anew":                           "anew",
		"CPUs were not to be had":                         "to be had",
		"the errors stand beside the rounding":            "stand beside",
		"the driver lets go of the GPU":                   "lets go of",
		"every ceiling of this machine":                   "ceiling",
		"twice the floor of bytes":                        "floor",
		"the program calls synchronise often":             "synchronis",
		"the caller waits for a slot":                     "the caller",
		"it takes 7.55 ms a step less":                    "ms a step",
		"energy a step is unknown":                        "energy a step",
		"three weights an edge":                           "weights an edge",
		"What ended it is in the log of the run.":         "What ended it",
		"Where no steps were found, times are per trace.": "Where no steps",
		"stopped early; what was measured is kept":        "; what was",
		"is 2 %: where the CPUs were free":                ": where",
	}
	for sentence, words := range planted {
		found, err := checkFiles(fstest.MapFS{
			"docs/page.md":         {Data: []byte("# Page\n\n" + strings.Replace(sentence, " ", "\n", 1) + "\n\n```\n" + sentence + "\n```\n")},
			"README.md":            {Data: []byte("| head |\n|---|\n| cell | " + sentence + " |\n")},
			"internal/a/a.go":      {Data: []byte("package a\n\nvar x = \"" + strings.Replace(sentence, " ", " \" +\n\t\"", 1) + "\"\n")},
			"internal/a/b.go":      {Data: []byte("package a\n\ntype t struct {\n\tF int `help:\"" + sentence + "\"`\n}\n")},
			"report/html/p.tmpl":   {Data: []byte("<p>{{.X}}</p>\n<p>" + sentence + "</p>\n")},
			"report/html/s.js":     {Data: []byte("// " + sentence + "\nconst x = \"" + sentence + "\";\n")},
			"internal/a/a_test.go": {Data: []byte("package a\n\nvar y = \"" + sentence + "\"\n")},
			"docs/testdata/x.md":   {Data: []byte(sentence)},
		})
		if err != nil {
			t.Fatal(err)
		}
		found = slices.DeleteFunc(found, func(f string) bool { return strings.HasPrefix(f, "scripts/check/prose/words.go") })
		for _, place := range []string{"docs/page.md:", "README.md:3:", "internal/a/a.go:", "internal/a/b.go:4:", "report/html/p.tmpl:2:", "report/html/s.js:2:"} {
			if !slices.ContainsFunc(found, func(f string) bool {
				return strings.HasPrefix(f, place) && strings.Contains(f, words) && strings.Contains(f, "write ")
			}) {
				t.Errorf("%q in %s is not found: %q", sentence, place, found)
			}
		}
		if len(found) != 6 {
			t.Errorf("%q: %d findings: %q", sentence, len(found), found)
		}
	}
}

func TestLongSentence(t *testing.T) {
	long := strings.Repeat("word ", longest+1)
	found, err := checkFiles(fstest.MapFS{"docs/a.md": {Data: []byte("Short.\n\n" + strings.Replace(long, " ", "\n", 3) + "end.\n")}})
	if err != nil || len(found) == 0 || !strings.HasPrefix(found[0], fmt.Sprintf("docs/a.md:3: a sentence of %d words", longest+2)) {
		t.Errorf("%q, %v", found, err)
	}
}

func TestHeadingsAreNouns(t *testing.T) {
	found, err := checkFiles(fstest.MapFS{
		"docs/a.md": {Data: []byte("# Attribution\n\n## Where the change comes from\n\n## Where is it?\n")},
		"pkg/a.go":  {Data: []byte("package a\n\nvar s = Section{Heading: \"What next\"}\nvar r = Section{Heading: \"Next step\"}\n")},
	})
	found = slices.DeleteFunc(found, func(f string) bool { return strings.HasPrefix(f, "scripts/check/prose/words.go") })
	if err != nil || len(found) != 2 || !strings.Contains(found[0]+found[1], "docs/a.md:3: the heading") || !strings.Contains(found[0]+found[1], "pkg/a.go:3: the heading") {
		t.Errorf("%q, %v", found, err)
	}
}

// Questions, code, verbs before "a step" and names stay.
func TestPlainSentences(t *testing.T) {
	found, err := checkFiles(fstest.MapFS{
		"docs/a.md":  {Data: []byte("Where does the time of a step go?\n\nSet `anew mend` and [it](anew.md#mend).\n\n- It takes a step, is a step, has a row.\n- times per step\n")},
		"pkg/a.go":   {Data: []byte("package a\n\nimport _ \"anew\"\n\nvar n = 'a' + 1\nvar s = \"ceiling\"\nvar m = map[string]string{\"far-from-floor\": \"the rule far-from-floor\"}\n")},
		"pkg/bad.py": {Data: []byte("x = 1  # 1 ms\n")},
	})
	found = slices.DeleteFunc(found, func(f string) bool { return strings.HasPrefix(f, "scripts/check/prose/words.go") })
	if err != nil || len(found) > 0 {
		t.Errorf("%q, %v", found, err)
	}
}

// An error's format says no fix: a list that is joined, other calls and tests may hold the same mark.
func TestFixesAreFields(t *testing.T) {
	source := "package a\n\nvar a = fmt.Errorf(\"no file; give one\")\nvar b = gpuprof.Errorf(nil, \"no \"+what+\"; give one\", x)\n" +
		"var c = gpuprof.Errorf(nil, \"%s\", strings.Join(all, \"; \")).WithFix(\"give one; or two\")\nvar d = note(\"one; two\")\n"
	found, err := checkFiles(fstest.MapFS{"pkg/a.go": {Data: []byte(source)}, "pkg/a_test.go": {Data: []byte(source)}})
	found = slices.DeleteFunc(found, func(f string) bool { return strings.HasPrefix(f, "scripts/check/prose/words.go") })
	if err != nil || len(found) != 2 || !strings.HasPrefix(found[0], "pkg/a.go:3: ") || !strings.HasPrefix(found[1], "pkg/a.go:4: ") {
		t.Errorf("%q, %v", found, err)
	}
}

// Sentences within the limit are reported for their mean, and a semicolon or a colon does not end one.
func TestMeanLength(t *testing.T) {
	for n, want := range map[int]int{int(mean) - 1: 0, int(mean): 1} {
		text := strings.Repeat(strings.Repeat("word ", n-3)+"a: b; c.\n", 5)
		found, err := checkFiles(fstest.MapFS{"docs/a.md": {Data: []byte(text)}})
		found = slices.DeleteFunc(found, func(f string) bool { return strings.HasPrefix(f, "scripts/check/prose/words.go") })
		if err != nil || len(found) != want || want > 0 && !strings.Contains(found[0], fmt.Sprintf("%d.0 words in the mean", n)) {
			t.Errorf("%d words: %q, %v", n, found, err)
		}
	}
}
