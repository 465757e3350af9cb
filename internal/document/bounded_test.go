//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package document_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// What is made to decode into far more than its text is refused before it is: by the
// heap that decoding leaves and makes, not by time.
func TestDecodedMemoryIsBounded(t *testing.T) {
	t.Setenv(outside.MemoryVariable, "56MiB") // 16 MiB decoded
	many := func(open, one, end string) string {
		return open + strings.Repeat(one+",", (4<<20)/(len(one)+1)) + one + end
	}
	for name, text := range map[string]string{
		"numbers":         many(`{"runs":[[`, `0`, `]]}`),
		"lists":           many(`{"runs":[`, `[]`, `]}`),
		"structs":         many(`{"parts":[`, `{}`, `]}`),
		"pointers":        many(`{"parts":[`, `{"step":{}}`, `]}`),
		"any":             many(`{"any":[`, `[]`, `]}`),
		"any numbers":     many(`{"any":[`, `1`, `]}`),
		"empty texts":     many(`{"words":[`, `""`, `]}`),
		"lists of texts":  many(`{"flags":[`, `[]`, `]}`),
		"one long text":   `{"words":["` + strings.Repeat("a", 9<<20) + `"]}`,
		"deep":            `{"any":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
		"too deep":        `{"any":` + strings.Repeat(`[`, 1<<20) + strings.Repeat(`]`, 1<<20) + `}`,
		"only an opening": strings.Repeat(`[`, 4<<20),
		"commas":          "[" + strings.Repeat(",", 4<<20),
		"unknown":         many(`{"nothing":[`, `{}`, `]}`),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var d aDocument
		err := document.DecodeJSON([]byte(text), &d)
		runtime.ReadMemStats(&after)
		made := after.TotalAlloc - before.TotalAlloc
		_, large := errors.AsType[*outside.TooLarge](err)
		if fine := name == "deep" || name == "unknown"; fine != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if !large && !strings.Contains(name, "deep") && name != "unknown" && name != "only an opening" && name != "commas" {
			t.Errorf("%s: %v, want TooLarge", name, err)
		}
		if made > uint64(len(text))+64<<20 {
			t.Errorf("%s: decoding %d bytes made %d bytes", name, len(text), made)
		}
	}
}
