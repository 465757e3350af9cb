package mcp

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/explain"
)

// Addresses of resources.
const (
	ruleTexts = "gpuprof://rule/"
	schemas   = "gpuprof://schema/"
	documents = "gpuprof://document/"
)

// addResources publishes the texts of the rules, the JSON schemas and, by path, whole documents.
func (s *server) addResources(to *sdk.Server, texts *Texts) error {
	entries, err := explain.All(explain.Rule)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		to.AddResource(&sdk.Resource{URI: ruleTexts + e.Name, Name: "rule " + e.Name, MIMEType: "text/plain", Description: explain.Plain(e.Brief())},
			func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return textContent(r.Params.URI, "text/plain", ruleText(e)), nil
			})
	}
	all := texts.Schemas()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to.AddResource(&sdk.Resource{URI: schemas + name, Name: "schema " + name, MIMEType: "application/schema+json", Description: "JSON schema of the document " + name},
			func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				text, err := all[name]()
				if err != nil {
					return nil, err
				}
				return textContent(r.Params.URI, "application/schema+json", string(text)), nil
			})
	}
	to.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: documents + "{+path}", Name: "whole document", MIMEType: "application/json",
		Description: "The whole document of a recording, of its folder, or of a file that gpuprof wrote, by its path (gpuprof://document//tmp/run/analysis.json, or relative to the folder of the server). It may have millions of bytes."}, s.readDocument)
	return nil
}

func textContent(uri, kind, text string) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: kind, Text: text}}}
}

func ruleText(e *explain.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", e.Name)
	for _, p := range e.Parts {
		fmt.Fprintf(&b, "\n%s: %s\n", p.Title, explain.Plain(p.Text))
	}
	return b.String()
}

// readDocument returns a whole document: the content of a file that gpuprof wrote, or the analysis of a recording.
func (s *server) readDocument(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	file, err := url.PathUnescape(strings.TrimPrefix(r.Params.URI, documents))
	if err != nil || file == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it holds no path", r.Params.URI).WithFix("give %sPATH", documents)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	if kept := filepath.Join(file, "analysis.json"); cli.IsDir(file) {
		if _, err := os.Stat(kept); err == nil {
			file = kept
		}
	}
	var e ended
	for _, verb := range []string{"report", "analyze"} {
		if verb == "report" && cli.IsDir(file) {
			continue
		}
		if e, err = s.run(ctx, "", 0, verb, "--format=json", fileArg(file)); err != nil {
			return nil, err
		}
		if e.code == cli.ExitOK {
			return textContent(r.Params.URI, "application/json", e.out), nil
		}
	}
	return nil, fmt.Errorf("reading %s: %s", file, lastBytes(cli.SentenceOf(e.words), mostMessage))
}
