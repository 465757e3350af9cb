package results

import (
	"strings"
	"testing"
)

// One name with figures of two units is refused: neither unit is true of all of them. Equal units under other names
// convert.
func TestOneUnitForEachName(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"GitHub's":        {`[{"name":"a","unit":"ms","value":5},{"name":"a","unit":"MB","value":6}]`, `a is in "s" and in "B"`},
		"GitHub's, alike": {`[{"name":"a","unit":"ms","value":5},{"name":"a","unit":"us","value":6}]`, ""},
		"JMH": {`[{"benchmark":"a","mode":"avgt","primaryMetric":{"score":1,"scoreUnit":"us/op","rawData":[[1]]}},
			{"benchmark":"a","mode":"avgt","primaryMetric":{"score":1,"scoreUnit":"B","rawData":[[1]]}}]`, " and in "},
	} {
		_, _, err := Parse([]byte(c.text), "x.json", nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A figure of requests that succeeded is a number. NaN, which becomes null in JSON, is kept as a sample that is none.
func TestGuideLLMKeepsNull(t *testing.T) {
	const text = `{"metadata":{"guidellm_version":"0.4"},"benchmarks":[{"metrics":{"requests_per_second":{"successful":{"mean":5,"count":9}},
		"request_latency":{"successful":{"mean":NaN,"median":1,"count":9,"percentiles":{"p90":null,"p95":1,"p99":1}}}}}]}`
	_, _, err := Parse([]byte(text), "x.json", nil)
	if err == nil || !strings.Contains(err.Error(), "request_latency/mean is null, NaN or infinite") {
		t.Errorf("%v", err)
	}
}
