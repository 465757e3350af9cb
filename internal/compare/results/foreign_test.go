package results

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
)

// What each format holds, in base units, with the direction that its own rules give. The fixtures are made: they have
// the members that the writers of these programs write.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		file, format, tool string
		env                map[string]string
		failed, notes      []string
		series             []string
	}{
		{"bmf.json", "bencher", "", map[string]string{}, nil, nil, []string{
			"gemm/n=64 [s] 1 8.85e-08", "gemm/n=64:throughput [ops/s] 1 5.5 higher", "train:accuracy [] 1 0.93 undirected",
			"train:file-size [B] 1 4096", "train [s] 1 0.0025",
		}},
		{"github-custom.json", "github-action-benchmark", "", map[string]string{}, nil, nil, []string{
			"train step [s] 1 0.0125", "tokens [tokens/s] 1 4100 higher", "weights [B] 1 5.369e+08 undirected",
			"score [points] 1 71.5 undirected",
		}},
		{"github-data.js", "github-action-benchmark", "", map[string]string{"tool": "go; pytest; customBiggerIsBetter"}, nil, []string{"1 older entries of the suite Python are left out; the newest commit is bbbbbbbbbbbb"}, []string{
			"Go/BenchmarkSum [s] 1 3.15e-08", "Go/BenchmarkSum - ns/op [s] 1 3.15e-08", "Go/BenchmarkSum - B/op [B/op] 1 16",
			"Go/BenchmarkSum - MB/s [MB/s] 1 820 higher", "Python/test_sum [iter/s] 1 950 higher", "Scores/accuracy [points] 1 0.5 higher",
			"Scores/uptime [s] 1 90 higher",
		}},
		{"asv.json", "asv", "asv", map[string]string{"arch": "x86_64", "machine": "bench", "cpu": "Example CPU"}, []string{"bench.time_gone: asv has no result of it"}, []string{"asv kept no single samples, only medians", "bench.Sort.time_sort(10, 2) was skipped: asv has no figure of it: it failed or left itself out", "bench.Sort.time_sort(big, 1) was skipped: asv has no figure of it: it failed or left itself out"}, []string{
			"bench.Sort.time_sort(10, 1) [s] 3 0.0014", "bench.Sort.time_sort(big, 2) [s] 2 0.0029", "bench.mem_list [B] 1 2048",
			"bench.peakmem_all [B] 1 3.355e+07", "bench.time_median [s] 1 0.25", "bench.track_error [] 1 0.125 undirected",
		}},
		{"jmh.json", "jmh", "JMH 1.37", map[string]string{}, nil, nil, []string{
			"org.example.Sums.sum[n=64]:avgt [s] 3+3 2e-06", "org.example.Sums.sum[n=64]:avgt:·gc.alloc.rate [MB/sec] 3+3 810.5 undirected",
			"org.example.Sums.sum[n=64]:avgt:·gc.count [counts] 3+3 1 undirected", "org.example.Sums.sum[threads=4]:thrpt [ops/s] 3+3 5000 higher",
			"org.example.Sums.sum[threads=4]:thrpt:reader [ops/s] 3+3 3000 higher", "org.example.Sums.sum:sample [s] 2+1 3e-06",
			"org.example.Sums.start:ss [s] 1+1 0.0125",
		}},
		{"vllm.json", "vllm-bench", "vllm bench serve", map[string]string{"model": "example/model", "backend": "openai", "num_prompts": "100"}, nil, nil, []string{
			"request_throughput[request_rate=inf] [requests/s] 1+1 4 higher", "output_throughput[request_rate=inf] [tokens/s] 1+1 512 higher",
			"total_token_throughput[request_rate=inf] [tokens/s] 1+1 912 higher", "max_output_tokens_per_s[request_rate=inf] [tokens/s] 1+1 900 higher",
			"failed[request_rate=inf] [requests] 1+1 1", "completed[request_rate=inf] [requests] 1+1 99 undirected",
			"duration[request_rate=inf] [s] 1+1 25 undirected", "total_input_tokens[request_rate=inf] [tokens] 1+1 1e+04 undirected",
			"total_output_tokens[request_rate=inf] [tokens] 1+1 1.28e+04 undirected", "max_concurrent_requests[request_rate=inf] [requests] 1+1 12 undirected",
			"e2el/mean[request_rate=inf] [s] 1+1 1.21", "itl/mean[request_rate=inf] [s] 1+1 0.0088", "tpot/mean[request_rate=inf] [s] 1+1 0.0088",
			"ttft/mean[request_rate=inf] [s] 1+1 0.044", "e2el/median[request_rate=inf] [s] 1+1 1.1", "itl/median[request_rate=inf] [s] 1+1 0.008",
			"tpot/median[request_rate=inf] [s] 1+1 0.008", "ttft/median[request_rate=inf] [s] 1+1 0.04",
			"e2el/p99[request_rate=inf] [s] 1+1 1.65", "itl/p99[request_rate=inf] [s] 1+1 0.012", "tpot/p99[request_rate=inf] [s] 1+1 0.012",
			"ttft/p99[request_rate=inf] [s] 1+1 0.06", "request_throughput[request_rate=2.0] [requests/s] 1 1.9 higher",
			"output_throughput[request_rate=2.0] [tokens/s] 1 243.2 higher", "total_token_throughput[request_rate=2.0] [tokens/s] 1 433.2 higher",
			"max_output_tokens_per_s[request_rate=2.0] [tokens/s] 1 900 higher", "failed[request_rate=2.0] [requests] 1 1",
			"completed[request_rate=2.0] [requests] 1 99 undirected", "duration[request_rate=2.0] [s] 1 25 undirected",
			"total_input_tokens[request_rate=2.0] [tokens] 1 1e+04 undirected", "total_output_tokens[request_rate=2.0] [tokens] 1 1.28e+04 undirected",
			"max_concurrent_requests[request_rate=2.0] [requests] 1 12 undirected", "e2el/mean[request_rate=2.0] [s] 1 1.21",
			"itl/mean[request_rate=2.0] [s] 1 0.0088", "tpot/mean[request_rate=2.0] [s] 1 0.0088", "ttft/mean[request_rate=2.0] [s] 1 0.044",
			"e2el/median[request_rate=2.0] [s] 1 1.1", "itl/median[request_rate=2.0] [s] 1 0.008", "tpot/median[request_rate=2.0] [s] 1 0.008",
			"ttft/median[request_rate=2.0] [s] 1 0.04", "e2el/p99[request_rate=2.0] [s] 1 1.65", "itl/p99[request_rate=2.0] [s] 1 0.012",
			"tpot/p99[request_rate=2.0] [s] 1 0.012", "ttft/p99[request_rate=2.0] [s] 1 0.06",
		}},
		{"aiperf.json", "aiperf", "AIPerf 0.13.0", map[string]string{"phases": "[ { \"concurrency\": 8, \"requests\": 50 } ]"}, nil, nil, []string{
			"benchmark_duration[loadgen.concurrency=8] [s] 1 14.2 undirected", "error_request_count[loadgen.concurrency=8] [requests] 1 2",
			"good_request_fraction[loadgen.concurrency=8] [ratio] 1 0.96 higher", "inter_token_latency/avg[loadgen.concurrency=8] [s] 1 0.0075",
			"inter_token_latency/p50[loadgen.concurrency=8] [s] 1 0.0075", "inter_token_latency/p90[loadgen.concurrency=8] [s] 1 0.009",
			"inter_token_latency/p95[loadgen.concurrency=8] [s] 1 0.00975", "inter_token_latency/p99[loadgen.concurrency=8] [s] 1 0.01125",
			"output_sequence_length/avg[loadgen.concurrency=8] [tokens] 1 128 undirected", "output_sequence_length/p50[loadgen.concurrency=8] [tokens] 1 128 undirected",
			"output_sequence_length/p90[loadgen.concurrency=8] [tokens] 1 153.6 undirected", "output_sequence_length/p95[loadgen.concurrency=8] [tokens] 1 166.4 undirected",
			"output_sequence_length/p99[loadgen.concurrency=8] [tokens] 1 192 undirected", "output_token_throughput[loadgen.concurrency=8] [tokens/s] 1 450 higher",
			"output_token_throughput_per_user/avg[loadgen.concurrency=8] [tokens/s] 1 130 higher", "output_token_throughput_per_user/p50[loadgen.concurrency=8] [tokens/s] 1 130 higher",
			"output_token_throughput_per_user/p90[loadgen.concurrency=8] [tokens/s] 1 156 higher", "output_token_throughput_per_user/p95[loadgen.concurrency=8] [tokens/s] 1 169 higher",
			"output_token_throughput_per_user/p99[loadgen.concurrency=8] [tokens/s] 1 195 higher", "request_count[loadgen.concurrency=8] [requests] 1 50 undirected",
			"request_latency/avg[loadgen.concurrency=8] [s] 1 0.9", "request_latency/p50[loadgen.concurrency=8] [s] 1 0.9",
			"request_latency/p90[loadgen.concurrency=8] [s] 1 1.08", "request_latency/p95[loadgen.concurrency=8] [s] 1 1.17",
			"request_latency/p99[loadgen.concurrency=8] [s] 1 1.35", "request_throughput[loadgen.concurrency=8] [requests/s] 1 3.5 higher",
			"time_to_first_token/avg[loadgen.concurrency=8] [s] 1 0.045", "time_to_first_token/p50[loadgen.concurrency=8] [s] 1 0.045",
			"time_to_first_token/p90[loadgen.concurrency=8] [s] 1 0.054", "time_to_first_token/p95[loadgen.concurrency=8] [s] 1 0.0585",
			"time_to_first_token/p99[loadgen.concurrency=8] [s] 1 0.0675",
		}},
		{"guidellm.json", "guidellm", "guidellm 0.8.1", map[string]string{}, nil, nil, []string{
			"requests[strategy=concurrent streams=8] [requests/s] 1 2 higher", "output_tokens[strategy=concurrent streams=8] [tokens/s] 1 250 higher",
			"tokens[strategy=concurrent streams=8] [tokens/s] 1 700 higher", "request_latency/mean[strategy=concurrent streams=8] [s] 1 1.25",
			"request_latency/p50[strategy=concurrent streams=8] [s] 1 1.188", "request_latency/p90[strategy=concurrent streams=8] [s] 1 1.625",
			"request_latency/p95[strategy=concurrent streams=8] [s] 1 1.75", "request_latency/p99[strategy=concurrent streams=8] [s] 1 2",
			"time_to_first_token/mean[strategy=concurrent streams=8] [s] 1 0.05", "time_to_first_token/p50[strategy=concurrent streams=8] [s] 1 0.0475",
			"time_to_first_token/p90[strategy=concurrent streams=8] [s] 1 0.065", "time_to_first_token/p95[strategy=concurrent streams=8] [s] 1 0.07",
			"time_to_first_token/p99[strategy=concurrent streams=8] [s] 1 0.08", "time_per_output_token/mean[strategy=concurrent streams=8] [s] 1 0.009",
			"time_per_output_token/p50[strategy=concurrent streams=8] [s] 1 0.00855", "time_per_output_token/p90[strategy=concurrent streams=8] [s] 1 0.0117",
			"time_per_output_token/p95[strategy=concurrent streams=8] [s] 1 0.0126", "time_per_output_token/p99[strategy=concurrent streams=8] [s] 1 0.0144",
			"inter_token_latency/mean[strategy=concurrent streams=8] [s] 1 0.0085", "inter_token_latency/p50[strategy=concurrent streams=8] [s] 1 0.008075",
			"inter_token_latency/p90[strategy=concurrent streams=8] [s] 1 0.01105", "inter_token_latency/p95[strategy=concurrent streams=8] [s] 1 0.0119",
			"inter_token_latency/p99[strategy=concurrent streams=8] [s] 1 0.0136", "request_concurrency[strategy=concurrent streams=8] [requests] 1 8 undirected",
			"prompt_token_count[strategy=concurrent streams=8] [tokens] 1 256 undirected", "output_token_count[strategy=concurrent streams=8] [tokens] 1 128 undirected",
			"errored[strategy=concurrent streams=8] [requests] 1 1", "requests[strategy=constant rate=2.5] [requests/s] 1 2 higher",
			"output_tokens[strategy=constant rate=2.5] [tokens/s] 1 250 higher", "tokens[strategy=constant rate=2.5] [tokens/s] 1 700 higher",
			"request_latency/mean[strategy=constant rate=2.5] [s] 1 1.25", "request_latency/p50[strategy=constant rate=2.5] [s] 1 1.188",
			"request_latency/p90[strategy=constant rate=2.5] [s] 1 1.625", "request_latency/p95[strategy=constant rate=2.5] [s] 1 1.75",
			"request_latency/p99[strategy=constant rate=2.5] [s] 1 2", "time_to_first_token/mean[strategy=constant rate=2.5] [s] 1 0.05",
			"time_to_first_token/p50[strategy=constant rate=2.5] [s] 1 0.0475", "time_to_first_token/p90[strategy=constant rate=2.5] [s] 1 0.065",
			"time_to_first_token/p95[strategy=constant rate=2.5] [s] 1 0.07", "time_to_first_token/p99[strategy=constant rate=2.5] [s] 1 0.08",
			"time_per_output_token/mean[strategy=constant rate=2.5] [s] 1 0.009", "time_per_output_token/p50[strategy=constant rate=2.5] [s] 1 0.00855",
			"time_per_output_token/p90[strategy=constant rate=2.5] [s] 1 0.0117", "time_per_output_token/p95[strategy=constant rate=2.5] [s] 1 0.0126",
			"time_per_output_token/p99[strategy=constant rate=2.5] [s] 1 0.0144", "inter_token_latency/mean[strategy=constant rate=2.5] [s] 1 0.0085",
			"inter_token_latency/p50[strategy=constant rate=2.5] [s] 1 0.008075", "inter_token_latency/p90[strategy=constant rate=2.5] [s] 1 0.01105",
			"inter_token_latency/p95[strategy=constant rate=2.5] [s] 1 0.0119", "inter_token_latency/p99[strategy=constant rate=2.5] [s] 1 0.0136",
			"request_concurrency[strategy=constant rate=2.5] [requests] 1 8 undirected", "prompt_token_count[strategy=constant rate=2.5] [tokens] 1 256 undirected",
			"output_token_count[strategy=constant rate=2.5] [tokens] 1 128 undirected", "errored[strategy=constant rate=2.5] [requests] 1 1",
		}},
	} {
		got := read(t, c.file)
		if got.Tool != c.format || got.Env["format"] != c.format || got.Facts["tool"] != c.tool {
			t.Errorf("%s: format %s by %s", c.file, got.Tool, got.Facts["tool"])
		}
		for what, d := range map[string]string{
			"series": cmp.Diff(c.series, brief(got)), "env": cmp.Diff(c.env, ownEnv(got)),
			"failed": cmp.Diff(c.failed, got.Failed), "notes": cmp.Diff(c.notes, texts(got.Warnings)),
		} {
			if d != "" {
				t.Errorf("%s: %s differ (-want +got):\n%s", c.file, what, d)
			}
		}
	}
}

func TestForeignErrors(t *testing.T) {
	const jmh = `{"benchmark":"a.b","mode":"%","primaryMetric":{"score":1,"scoreUnit":"ns/op","rawData":[[-1]]}}`
	for text, want := range map[string]string{
		`{"a":{"latency":{"value":-1}}}`:         "a is -1e-09 s (sample 1 of run 1)",
		`{"a":{"latency":{"value":"x"}}}`:        "is not a number",
		`{"a":{"latency":{"value":null}}}`:       "a is null, NaN or infinite (sample 1",
		`[{"name":"","unit":"s","value":1}]`:     "a benchmark has no name",
		`[{"name":"a","unit":"s","value":null}]`: "a is null, NaN or infinite",
		`window.BENCHMARK_DATA = {"lastUpdate":1,"entries":{"x":[{"tool":"odd","benches":[]}]}}`:        `the tool "odd" has no direction here`,
		`window.BENCHMARK_DATA = {"lastUpdate":1,"entries":{}}`:                                         "it holds no benchmark",
		`window.BENCHMARK_DATA = {"lastUpdate":1,`:                                                      "JSON",
		`{"results":{"a":[[1]]},"commit_hash":"x"}`:                                                     "asv update",
		`{"results":{"a":[[1,2],[["1"]]]},"result_columns":["result","params"]}`:                        "it has 2 results for 1 combinations",
		`{"results":{"a":[["x"],[]]},"result_columns":["result","params"]}`:                             "is not a number",
		strings.Replace(jmh, "%", "odd", 1):                                                             `its mode "odd" is not known`,
		strings.Replace(jmh, "%", "avgt", 1):                                                            "a.b:avgt is -1e-09 s (sample 1 of run 1)",
		`{"benchmark":"","mode":"avgt","primaryMetric":{}}`:                                             "a benchmark has no name",
		`{"benchmark":"a","mode":"avgt","primaryMetric":{}}`:                                            "it has no score",
		`{"metadata":{},"benchmarks":[{"metrics":{"requests_per_second":{"successful":{"count":0}}}}]}`: "it holds no benchmark",
	} {
		rs, _, err := Parse([]byte(text), "the.json", noSideFiles)
		if !errors.Is(err, gpuprof.ErrInput) || rs != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the.json") {
			t.Errorf("%.70s: %v, want %q", text, err, want)
		}
	}
}

// Two of the formats that a benchmark prints on standard output are told there too, and a figure of another unit under
// one name is an error.
func TestForeignIsKnown(t *testing.T) {
	for text, want := range map[string]bool{
		`[{"name":"a","unit":"ms","value":1}]`: true, `{"a":{"latency":{"value":1}}}`: true, "window.BENCHMARK_DATA = {\"entries\":{},\"lastUpdate\":1}": true,
		`{"a":{"latency":{}}}`: false, `{"step":1,"loss":{"value":2}}`: false, `[{"name":"a"}]`: false,
	} {
		if Known([]byte(text)) != want {
			t.Errorf("%s: known %v", text, !want)
		}
	}
	for unit, want := range map[string]struct {
		value float64
		unit  string
		is    direction
	}{
		"ms": {1e-3, "s", lowerBetter}, "ns/iter": {1e-9, "s", lowerBetter}, "ops/sec": {1, "ops/s", higherBetter}, "MB/s": {1, "MB/s", higherBetter},
		"seconds": {1, "s", lowerBetter}, "KiB": {1024, "B", undirected}, "points": {1, "points", undirected}, "": {1, "", undirected}, "tokens per second": {1, "tokens/s", higherBetter},
	} {
		if v, u, is := convertQuantity(1, unit); v != want.value || u != want.unit || is != want.is {
			t.Errorf("%s: %v %s %v", unit, v, u, is)
		}
	}
}
