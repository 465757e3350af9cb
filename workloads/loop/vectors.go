package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Tolerances for other programs' test vectors: rounding in float64, a few units in the last place of a sum in float32.
const (
	Tolerance64 = 1e-12
	Tolerance32 = 1e-6
)

// Vectors runs every case of a file of test vectors, {"cases": [...]}, and returns the results. C is a case with its
// JSON fields, and fields names the file that documents them. run compares a case. An error of run becomes ErrInput,
// since it comes from wrong content of the file, unless it is an error of memory or of the device.
func Vectors[C any](ctx context.Context, file []byte, name, fields string, kind func(*C) string, run func(*C) ([]gpuprof.CaseResult, error)) ([]gpuprof.CaseResult, error) {
	const form = `the file must hold {"cases": [...]}`
	var doc struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := decodeJSON(file, &doc); err != nil {
		return nil, gpuprof.Unreadable("reading vectors "+name, document.PlainSyntax(err), form+" as JSON, which has no NaN and no Infinity")
	}
	if len(doc.Cases) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading vectors %s: it holds no cases", name).WithFix(form)
	}
	var out []gpuprof.CaseResult
	for i, raw := range doc.Cases {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		c := new(C)
		if err := decodeJSON(raw, c); err != nil {
			return out, gpuprof.Unreadable(fmt.Sprintf("reading vectors %s: case %d", name, i), err, "see "+fields+" for its fields")
		}
		results, err := run(c)
		if err != nil {
			err = fmt.Errorf("checking vectors %s: case %d (%s): %w", name, i, kind(c), err)
			if !errors.Is(err, gpuprof.ErrMemory) && !errors.Is(err, gpuprof.ErrDevice) {
				err = gpuprof.Errorf(gpuprof.ErrInput, "%s", err.Error())
			}
			return out, err
		}
		for _, r := range results {
			r.Kind, r.Index = kind(c), i
			r.Pass = float64(r.RelativeError) <= r.Tolerance
			out = append(out, r)
		}
	}
	return out, nil
}

// decodeJSON decodes JSON if it fits the memory budget of a document.
func decodeJSON(text []byte, v any) error {
	if err := document.Fits(nil, text, v); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// Numbers reads the numbers of a JSON array in order. The array may be nested to any depth; other values are an error.
func Numbers(b []byte) ([]float64, error) {
	var out []float64
	dec := json.NewDecoder(bytes.NewReader(b))
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller names the case
		}
		switch v := tok.(type) {
		case float64:
			out = append(out, v)
		case json.Delim:
			if v == '{' || v == '}' {
				return nil, errors.New("an object stands where numbers are expected")
			}
		default:
			return nil, fmt.Errorf("%v stands where a number is expected", tok)
		}
		// More is false at the end of a nested array; close it and continue.
		for !dec.More() {
			if _, err := dec.Token(); err != nil {
				return out, nil // the end of the value
			}
		}
	}
	return out, nil
}
