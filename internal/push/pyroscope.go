package push

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// sampleConfig describes a sample type for Pyroscope, which drops types without a description.
type sampleConfig struct {
	Units       string `json:"units"`
	DisplayName string `json:"display-name"`
	Aggregation string `json:"aggregation"`
	Sampled     bool   `json:"sampled"`
}

// encodePyroscope returns a request of Pyroscope's HTTP interface (grafana.com/docs/pyroscope, "Server HTTP API"): the
// unchanged profile and a table of its sample types.
func (s *Server) encodePyroscope(p *profile.Profile) (message, error) {
	types := map[string]sampleConfig{}
	for _, t := range p.SampleType {
		types[t.Type] = sampleConfig{Units: t.Unit, DisplayName: t.Type, Aggregation: "sum"}
	}
	config, err := json.Marshal(types)
	if err != nil {
		return message{}, err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("profile", "profile.pprof")
	if err != nil {
		return message{}, err
	}
	if err := p.Write(part); err != nil {
		return message{}, err
	}
	if part, err = form.CreateFormFile("sample_type_config", "sample_type_config.json"); err != nil {
		return message{}, err
	}
	if _, err := part.Write(config); err != nil {
		return message{}, err
	}
	if err := form.Close(); err != nil {
		return message{}, err
	}
	query := url.Values{"format": {"pprof"}, "name": {plainName(s.serviceName())}, "spyName": {"gpuprof"}}
	if p.TimeNanos > 0 {
		from := p.TimeNanos / int64(time.Second)
		until := (p.TimeNanos+max(p.DurationNanos, 0))/int64(time.Second) + 1
		query.Set("from", strconv.FormatInt(from, 10))
		query.Set("until", strconv.FormatInt(until, 10))
	}
	return message{query: query, kind: form.FormDataContentType(), body: body.Bytes()}, nil
}

// plainName replaces braces, which Pyroscope would parse as labels.
func plainName(name string) string { return strings.NewReplacer("{", "_", "}", "_").Replace(name) }
