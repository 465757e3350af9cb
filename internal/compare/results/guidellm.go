package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
)

// guideDistribution is a distribution in guidellm's report. The report has one benchmark per load of a sweep, with
// a distribution per request status; only the successful requests are read.
type guideDistribution struct {
	Successful *guideSummary `json:"successful"`
}

type guideSummary struct {
	Mean        figure            `json:"mean"`
	Median      figure            `json:"median"`
	Count       float64           `json:"count"`
	Percentiles map[string]figure `json:"percentiles"`
}

type guideBenchmark struct {
	Config struct {
		Strategy map[string]json.RawMessage `json:"strategy"`
	} `json:"config"`
	// Scheduler held the strategy before version 2 of the report.
	Scheduler struct {
		Strategy map[string]json.RawMessage `json:"strategy"`
	} `json:"scheduler"`
	Args struct {
		Strategy map[string]json.RawMessage `json:"strategy"`
	} `json:"args"`
	Metrics map[string]json.RawMessage `json:"metrics"`
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

// isGuideLLM reports whether guidellm wrote the file; tested before two formats that have "benchmarks" too.
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

func readGuideLLM(d jsonValue) (*parsed, error) {
	var f struct {
		Metadata struct {
			Version string `json:"guidellm_version"`
		} `json:"metadata"`
		Benchmarks []guideBenchmark `json:"benchmarks"`
	}
	if err := d.decode(&f); err != nil {
		return nil, err
	}
	p := newParsed(FormatGuideLLM)
	p.tool = strings.TrimSpace("guidellm " + f.Metadata.Version)
	for i := range f.Benchmarks {
		if err := p.guideBenchmark(&f.Benchmarks[i], d); err != nil {
			return nil, fmt.Errorf("benchmark %d: %w", i+1, err)
		}
	}
	return p, nil
}

// guideLoad names the load: the kind of schedule with its rate or number of streams.
func guideLoad(b *guideBenchmark) string {
	for _, s := range []map[string]json.RawMessage{b.Config.Strategy, b.Scheduler.Strategy, b.Args.Strategy} {
		if s != nil {
			return loadName("strategy", jsonText(s["type_"]), "rate", jsonText(s["rate"]), "streams", jsonText(s["streams"]), "max_concurrency", jsonText(s["max_concurrency"]))
		}
	}
	return ""
}

func (p *parsed) guideBenchmark(b *guideBenchmark, d jsonValue) error {
	load := guideLoad(b)
	for _, m := range guideMetrics {
		raw := b.Metrics[m.key]
		if raw == nil || string(raw) == "null" {
			continue
		}
		var of guideDistribution
		if err := (jsonValue{raw: raw, room: d.room}).decode(&of); err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
		s := of.Successful
		if s == nil || s.Count == 0 {
			continue // no request succeeded, or the server does not stream
		}
		figures := map[string]figure{"mean": s.Mean}
		if m.unit == "s" {
			figures = map[string]figure{"mean": s.Mean, "p50": s.Median, "p90": s.Percentiles["p90"], "p95": s.Percentiles["p95"], "p99": s.Percentiles["p99"]}
		}
		for _, statistic := range []string{"mean", "p50", "p90", "p95", "p99"} {
			v := figures[statistic]
			if !v.set {
				continue
			}
			name := m.name + "/" + statistic + load
			if m.unit != "s" {
				name = m.name + load
			}
			into := p.seriesFor(name, m.unit)
			into.setDirection(m.is)
			into.addRun(v.value * m.scale)
		}
	}
	return p.guideRequests(b, load)
}

func (p *parsed) guideRequests(b *guideBenchmark, load string) error {
	raw := b.Metrics["request_totals"]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var totals struct {
		Errored json.RawMessage `json:"errored"`
	}
	if err := json.Unmarshal(raw, &totals); err != nil {
		return fmt.Errorf("request_totals: %w", err)
	}
	return p.servingFigure("errored"+load, "requests", 1, lowerBetter, totals.Errored)
}
