package gpuprof_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
)

// What people type is read, or refused in a sentence with a fix; ErrUsage.
func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{"2s": 2 * time.Second, "500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "1.5h": 90 * time.Minute, "400d": 9600 * time.Hour, "0.5d": 12 * time.Hour} {
		if got, err := gpuprof.ParseTime(text); err != nil || got != want {
			t.Errorf("time %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]int64{"1GB": 1e9, "512MiB": 512 << 20, "2g": 2 << 30, "4096": 4096, "1.5 kb": 1500, "1B": 1} {
		if got, err := gpuprof.ParseBytes(text); err != nil || got != want {
			t.Errorf("size %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "0": 0, "0%": 0, "300%": 3, "5 %": 0.05} {
		if got, err := gpuprof.ParseShare(text); err != nil || got != want {
			t.Errorf("share %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"0": 0, "3": 3, "2.5": 2.5, "1e3": 1000} {
		for _, bytes := range []bool{false, true} {
			if got, err := gpuprof.ParseLimit(text, bytes); err != nil || got != want {
				t.Errorf("limit %q: %v, %v", text, got, err)
			}
		}
	}
	if got, err := gpuprof.ParseLimit("2MB", true); err != nil || got != 2e6 {
		t.Errorf("limit of bytes: %v, %v", got, err)
	}
	parsers := map[string]func(string) error{
		"limit":          func(s string) error { _, err := gpuprof.ParseLimit(s, false); return err },
		"limit of bytes": func(s string) error { _, err := gpuprof.ParseLimit(s, true); return err },
		"time":           func(s string) error { _, err := gpuprof.ParseTime(s); return err },
		"size":           func(s string) error { _, err := gpuprof.ParseBytes(s); return err },
		"share":          func(s string) error { _, err := gpuprof.ParseShare(s); return err },
	}
	for kind, refused := range map[string]string{
		"limit": "-1|NaN|inf|1e999||2MB|3x", "limit of bytes": "-1|-1MB|NaN|inf|1e999||2MBx|GB",
		"time": "0s|0|-3s|-3|5|1e3|1GB||s|d|2 weeks|NaN|inf|1e400s|-2d|0d|NaNd|infd|1e9d|1d12h", "size": "0|-1|0s|1GBx||GB|NaN|inf|1e30GiB|-1GB", "share": "5|1|-5%|-1|NaN|inf||%|5%%|2s",
	} {
		for text := range strings.SplitSeq(refused, "|") {
			err := parsers[kind](text)
			if _, fix := gpuprof.FixOf(err); kind == "time" {
				if _, example, ok := strings.Cut(fix, "such as "); !ok || parsers[kind](strings.FieldsFunc(example, func(c rune) bool { return c == ',' || c == ' ' })[0]) != nil {
					t.Errorf("time %q: the example of %q is no time", text, fix)
				}
			}
			if _, fix := gpuprof.FixOf(errors.Join(err)); err == nil || !errors.Is(err, gpuprof.ErrUsage) || fix == "" {
				t.Errorf("%s %q: %v", kind, text, err)
			}
		}
	}
}
