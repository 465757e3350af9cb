package commandline

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The guide has the jobs of the README, each with a command of the same verb.
func TestGuideHasTheJobsOfREADME(t *testing.T) {
	text, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	jobs := regexp.MustCompile("(?m)^\\*\\*([^*]+)\\*\\* `(gpuprof \\w+)[^`]*`").FindAllStringSubmatch(string(text), -1)
	if len(jobs) != 5 {
		t.Fatalf("the README has %d jobs", len(jobs))
	}
	for _, job := range jobs {
		if !regexp.MustCompile("(?m)^  " + regexp.QuoteMeta(job[1]) + " +" + job[2] + " ").MatchString(guide) {
			t.Errorf("the guide lacks %q with %s", job[1], job[2])
		}
	}
	for line := range strings.Lines(guide) {
		if len(line) > 81 {
			t.Errorf("the line %q is wider than a terminal", line)
		}
	}
}
