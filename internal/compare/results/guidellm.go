package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"github.com/gpuprof/gpuprof/internal/document"
)

// guideDistribution is a distribution in guidellm's report. The report has one benchmark per load of a sweep, with
// a distribution per request status; only the successful requests are read.
type guideDistribution struct {
	Successful struct {
		Mean        json.RawMessage            `json:"mean"`
		Median      json.RawMessage            `json:"median"`
		Count       float64                    `json:"count"`
		Percentiles map[string]json.RawMessage `json:"percentiles"`
	} `json:"successful"`
}

// guideLoad holds the schedule of a benchmark in the member config, scheduler (before version 2 of the report) or args.
type guideLoad struct {
	Strategy map[string]json.RawMessage `json:"strategy"`
}

type guideBenchmark struct {
	Config    guideLoad                  `json:"config"`
	Scheduler guideLoad                  `json:"scheduler"`
	Args      guideLoad                  `json:"args"`
	Metrics   map[string]json.RawMessage `json:"metrics"`
}

// guideMetrics lists the distributions to read, with the name and unit of their figures.
var guideMetrics = []struct {
	key, name, unit string
	scale           float64
	is              direction
}{
	{"requests_per_second", "requests", "requests/s", 1, higherBetter},
	{"output_tokens_per_second", "output_tokens", "tokens/s", 1, higherBetter},
	{"prompt_tokens_per_second", "prompt_tokens", "tokens/s", 1, higherBetter},
	{"tokens_per_second", "tokens", "tokens/s", 1, higherBetter},
	{"request_latency", "request_latency", "s", 1, lowerBetter},
	{"time_to_first_token_ms", "time_to_first_token", "s", 1e-3, lowerBetter},
	{"time_per_output_token_ms", "time_per_output_token", "s", 1e-3, lowerBetter},
	{"inter_token_latency_ms", "inter_token_latency", "s", 1e-3, lowerBetter},
	{"request_concurrency", "request_concurrency", "requests", 1, undirected},
	{"prompt_token_count", "prompt_token_count", "tokens", 1, undirected},
	{"output_token_count", "output_token_count", "tokens", 1, undirected},
}

// isGuideLLM reports whether guidellm wrote the file. It must run before the tests of two other formats that also have
// the member "benchmarks".
func isGuideLLM(d jsonValue) bool {
	if !d.hasMembers("benchmarks") || d.hasMembers("context") || d.hasMembers("devices") || d.hasMembers("machine_info") {
		return false
	}
	first, _ := document.JSONValue(bytes.TrimPrefix(d.member["benchmarks"], []byte("[")))
	found := false
	if len(first) > 0 && first[0] == '{' {
		document.JSONMembers(first, func(key string, metrics []byte) bool {
			found = key == "metrics" && metrics[0] == '{' && !everyMember(metrics, func([]byte) bool { return true }, "requests_per_second")
			return !found
		})
	}
	return found
}

func readGuideLLM(p *parsed, d jsonValue) error {
	var f struct {
		Metadata struct {
			Version string `json:"guidellm_version"`
		} `json:"metadata"`
		Benchmarks []guideBenchmark `json:"benchmarks"`
	}
	if err := d.decode(&f); err != nil {
		return err
	}
	p.setFact("tool", "guidellm "+f.Metadata.Version)
	for i := range f.Benchmarks {
		if err := p.guideBenchmark(&f.Benchmarks[i], d); err != nil {
			return fmt.Errorf("benchmark %d: %w", i+1, err)
		}
	}
	return nil
}

// name names the load: the kind of schedule with its rate or number of streams.
func (b *guideBenchmark) name() string {
	for _, l := range []guideLoad{b.Config, b.Scheduler, b.Args} {
		if s := l.Strategy; s != nil {
			return loadName("strategy", jsonText(s["type_"]), "rate", jsonText(s["rate"]), "streams", jsonText(s["streams"]), "max_concurrency", jsonText(s["max_concurrency"]))
		}
	}
	return ""
}

func (p *parsed) guideBenchmark(b *guideBenchmark, d jsonValue) error {
	load := b.name()
	for _, m := range guideMetrics {
		var of guideDistribution
		if raw := b.Metrics[m.key]; raw == nil {
			continue
		} else if err := d.decodeRaw(raw, &of); err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
		s := of.Successful
		if s.Count == 0 {
			continue // no request succeeded, or the server does not stream
		}
		add := func(name string, raw json.RawMessage) error {
			if string(raw) == "null" { // NaN in the report, although requests succeeded
				p.addRun(name+load, m.unit, m.is, math.NaN())
				return nil
			}
			return p.servingFigure(name+load, m.unit, m.scale, m.is, raw)
		}
		if m.unit != "s" {
			if err := add(m.name, s.Mean); err != nil {
				return err
			}
			continue
		}
		s.Percentiles = maps.Collect(maps.All(s.Percentiles))
		s.Percentiles["mean"], s.Percentiles["p50"] = s.Mean, s.Median
		for _, statistic := range []string{"mean", "p50", "p90", "p95", "p99"} {
			if err := add(m.name+"/"+statistic, s.Percentiles[statistic]); err != nil {
				return err
			}
		}
	}
	var totals struct {
		Errored json.RawMessage `json:"errored"`
	}
	if raw := b.Metrics["request_totals"]; raw != nil {
		if err := json.Unmarshal(raw, &totals); err != nil {
			return fmt.Errorf("request_totals: %w", err)
		}
	}
	return p.servingFigure("errored"+load, "requests", 1, lowerBetter, totals.Errored)
}
