package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
)

// The files of three programs that load an inference server: vllm bench serve, AIPerf (formerly GenAI-Perf) and
// guidellm. A file, or an object of it, is one run, and each of its statistics one sample. The load is part of each
// name, so that figures of different loads are never compared.

func loadName(pairs ...string) string {
	var words []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			words = append(words, pairs[i]+"="+pairs[i+1])
		}
	}
	if len(words) == 0 {
		return ""
	}
	return document.MaskText("[" + strings.Join(words, " ") + "]")
}

// jsonText returns a JSON number or string as text, "" for any other value.
func jsonText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

func isVLLM(d jsonValue) bool {
	return d.hasMembers("model_id", "num_prompts", "duration", "request_throughput", "completed")
}

// vllmScalars are the figures of vllm bench serve other than latencies. Token totals and the duration depend on the
// load alone, so they have no direction.
var vllmScalars = []struct {
	key, unit string
	is        direction
}{
	{"request_throughput", "requests/s", higherBetter}, {"request_goodput", "requests/s", higherBetter}, {"request_goodput:", "requests/s", higherBetter},
	{"output_throughput", "tokens/s", higherBetter}, {"total_token_throughput", "tokens/s", higherBetter}, {"max_output_tokens_per_s", "tokens/s", higherBetter},
	{"failed", "requests", lowerBetter}, {"completed", "requests", undirected}, {"duration", "s", undirected},
	{"total_input_tokens", "tokens", undirected}, {"total_output_tokens", "tokens", undirected}, {"max_concurrent_requests", "requests", undirected},
}

func readVLLM(p *parsed, d jsonValue) error {
	p.setFact("tool", "vllm bench serve")
	p.setEnv("model", jsonText(d.member["model_id"]))
	p.setEnv("backend", cmp.Or(jsonText(d.member["endpoint_type"]), jsonText(d.member["backend"])))
	p.setEnv("num_prompts", jsonText(d.member["num_prompts"]))
	load := loadName("request_rate", jsonText(d.member["request_rate"]), "max_concurrency", jsonText(d.member["max_concurrency"]))
	for _, s := range vllmScalars {
		if err := p.servingFigure(strings.TrimSuffix(s.key, ":")+load, s.unit, 1, s.is, d.member[s.key]); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.member)) {
		name, ms := strings.CutSuffix(key, "_ms")
		if !ms || strings.HasPrefix(key, "std_") {
			continue // skips standard deviations
		}
		statistic, what, ok := strings.Cut(name, "_")
		if !ok {
			continue
		}
		if err := p.servingFigure(what+"/"+statistic+load, "s", 1e-3, lowerBetter, d.member[key]); err != nil {
			return err
		}
	}
	return nil
}

// servingFigure adds one figure as a run; it skips a figure that is missing or null.
func (p *parsed) servingFigure(name, unit string, scale float64, is direction, raw json.RawMessage) error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var v figure
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.addRun(name, unit, is, v.value*scale)
	return nil
}

func isAIPerf(d jsonValue) bool {
	return d.hasMembers("request_latency") && (d.hasMembers("aiperf_version") || d.hasMembers("input_config")) && !d.hasMembers("benchmarks")
}

// aiperfStatistics are the statistics to read of a distribution; other figures have the mean alone.
var aiperfStatistics = []string{"avg", "p50", "p90", "p95", "p99"}

// aiperfDirections overrides the directions that units imply, or that are missing, by AIPerf's own. Times, lengths and
// counts that depend on the load alone have no direction.
var aiperfDirections = map[direction][]string{
	undirected: {"benchmark_duration", "audio_duration", "min_request_timestamp", "max_response_timestamp", "usage_prompt_audio_seconds", "network_rtt"},
	higherBetter: {"good_request_fraction", "nvidia_performance_per_watt", "nvidia_output_tps_per_watt", "nvidia_goodput_per_watt",
		"nvidia_output_tokens_per_joule", "amd_performance_per_watt", "amd_output_tps_per_watt", "amd_goodput_per_watt", "amd_output_tokens_per_joule", "rtfx"},
	lowerBetter: {"error_request_count", "request_error_rate", "context_overflow_count"},
}

func readAIPerf(p *parsed, d jsonValue) error {
	p.setFact("tool", "AIPerf "+jsonText(d.member["aiperf_version"]))
	var info struct {
		Values map[string]json.RawMessage `json:"variation_values"`
	}
	if raw := d.member["run_info"]; raw != nil {
		if err := d.decodeRaw(raw, &info); err != nil {
			return fmt.Errorf("run_info: %w", err)
		}
	}
	var config map[string]json.RawMessage
	if raw := d.member["input_config"]; raw != nil && json.Unmarshal(raw, &config) == nil {
		for _, key := range []string{"phases", "loadgen"} { // where the load is declared, by version
			if raw := config[key]; raw != nil {
				p.setEnv(key, document.MaskText(string(raw)))
			}
		}
	}
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(info.Values)) {
		pairs = append(pairs, k, jsonText(info.Values[k]))
	}
	load := loadName(pairs...)
	switch why := jsonText(d.member["incomplete_reason"]); {
	case why != "":
		p.addFailure("the run", "AIPerf did not complete it: "+why)
	case string(d.member["was_cancelled"]) == "true":
		p.addFailure("the run", "it was cancelled")
	}
	return p.addAIPerfFigures(d, load)
}

// addAIPerfFigures adds each figure with a unit and a mean. load is appended to the figure's name.
func (p *parsed) addAIPerfFigures(d jsonValue, load string) error {
	for _, tag := range slices.Sorted(maps.Keys(d.member)) {
		var m map[string]json.RawMessage
		if raw := d.member[tag]; raw[0] != '{' || json.Unmarshal(raw, &m) != nil || m["unit"] == nil || m["avg"] == nil {
			continue
		}
		for _, statistic := range aiperfStatistics {
			name := tag
			if m["p50"] != nil {
				name += "/" + statistic
			}
			scale, unit, is := convertQuantity(1, aiperfUnit(jsonText(m["unit"])))
			for of, tags := range aiperfDirections {
				if slices.Contains(tags, tag) {
					is = of
				}
			}
			if err := p.servingFigure(name+load, unit, scale, is, m[statistic]); err != nil {
				return err
			}
			if m["p50"] == nil {
				break
			}
		}
	}
	return nil
}

// aiperfUnit drops the second divisor of a rate: tokens/sec/user becomes tokens per second.
func aiperfUnit(unit string) string {
	if what, _, ok := strings.Cut(unit, "/sec/"); ok {
		return what + "/sec"
	}
	return unit
}
