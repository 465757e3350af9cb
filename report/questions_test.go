//go:build !race

// Every document is built once, in one goroutine, where the detector finds nothing.

package report_test

import (
	"io"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/report/table"
)

// TestAManagersQuestions: ten questions of a reader who decides, and the words on the first ten lines of a document that
// answer each.
func TestAManagersQuestions(t *testing.T) {
	first := map[string]string{}
	for _, g := range everyDocument(t) {
		text := rendered(t, func(w io.Writer) error { return table.Write(w, g.page, table.Options{Lines: 10, Width: 100}) })
		lines := strings.Split(text, "\n")
		first[g.name] = strings.Join(strings.Fields(strings.Join(lines[:min(10, len(lines))], " ")), " ")
	}
	for _, c := range []struct{ question, document, answer string }{
		{"How long does a step take?", "run gallery", "A step takes 7.95 ms [7.87 ms, 8.03 ms]"},
		{"Where does its time go?", "run gallery", "most of it in tensor_product (52.7 %)"},
		{"Why is the training slow?", "analysis stall", "The GPU idles 52 % of each 3.13 ms step, mostly because the step waits for the data loader: up to 1.62 ms"},
		{"Did the change make it slower?", "comparison regressed", "step takes 13.0 % longer (95 % +10.7 % to +15.3 %)"},
		{"How much load does the service bear?", "run sweep of loads", "Knee at load 0.8, the largest with 99 of 100 requests within 100 ms"},
		{"Which setting do we use?", "tuning recorded", "The default is best: no change is better by 2 % or more"},
		{"Which commit changed it?", "bisect recorded", "a9099ef \"commit 23\" changed Spin by +7.9 %"},
		{"Is it getting slower over the weeks?", "history made up", "step of e3nn-small is worse since abc00000001e: 9.10 ms, was 8.30 ms"},
		{"What holds more and more memory?", "memory leak", "record_memory.py:73 in record grows by 1.10 MiB in each step"},
		{"Which rank holds the job back?", "fleet straggling", "The others wait for rank 2, which costs up to 3.41 ms per step (21 %)"},
	} {
		if !strings.Contains(first[c.document], c.answer) {
			t.Errorf("%s %s opens without %q:\n%.200s", c.question, c.document, c.answer, first[c.document])
		}
	}
}
