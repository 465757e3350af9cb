package document_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// aDocument has what documents have: lists of numbers and of structs, maps, pointers,
// values that decode themselves and values of any type.
type aDocument struct {
	Runs   [][]float64          `json:"runs"`
	Order  []gpuprof.Order      `json:"order"`
	Parts  []gpuprof.Run        `json:"parts"`
	Counts map[string]float64   `json:"counts"`
	Words  []string             `json:"words"`
	Any    any                  `json:"any"`
	Deep   *aDocument           `json:"deep"`
	Flags  [][]string           `json:"flags"`
	Figure []gpuprof.Number     `json:"figure"`
	Tracks map[string]aDocument `json:"tracks"`
}

// The estimate is not below what decoding leaves, whatever the document.
func TestRoomCoversWhatIsDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"numbers": `{"runs":[[` + strings.Repeat("0,", 200_000) + `1]]}`,
		"order":   `{"order":[` + strings.Repeat("[0,0,0.5],", 100_000) + `[1,1,1]]}`,
		"structs": `{"parts":[` + strings.Repeat("{},", 20_000) + `{}]}`,
		"any":     `{"any":[` + strings.Repeat(`{"a":[]},`, 50_000) + `1]}`,
		"words":   `{"words":[` + strings.Repeat(`"abc",`, 100_000) + `""]}`,
		"figures": `{"figure":[` + strings.Repeat(`1,`, 200_000) + `null]}`,
	} {
		var before, after runtime.MemStats
		b := []byte(text)
		runtime.GC()
		runtime.ReadMemStats(&before)
		var d aDocument
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatal(name, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		runtime.KeepAlive(b)
		runtime.KeepAlive(&d)
		// With a little less memory than was kept, decoding is refused.
		t.Setenv(outside.MemoryVariable, strconv.FormatInt(max(512*kept/144*9/10, 1<<20), 10))
		if err := document.Fits(nil, b, &d); err == nil && kept > 1<<20 {
			t.Errorf("%s: %d bytes are kept, and were taken to fit into %d", name, kept, outside.DecodedMemory())
		}
	}
}

// Parts of a text are what encoding/json finds in it.
func TestPartsOfJSON(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any {
		var make func(depth int) any
		make = func(depth int) any {
			switch rapid.IntRange(0, 5-2*min(depth/3, 1)).Draw(t, "kind") {
			case 0:
				return rapid.Float64Range(-1e6, 1e6).Draw(t, "number")
			case 1:
				return rapid.String().Draw(t, "text")
			case 2:
				return nil
			case 3:
				return rapid.Bool().Draw(t, "bool")
			case 4:
				out := []any{}
				for range rapid.IntRange(0, 4).Draw(t, "n") {
					out = append(out, make(depth+1))
				}
				return out
			}
			out := map[string]any{}
			for range rapid.IntRange(0, 4).Draw(t, "n") {
				out[rapid.String().Draw(t, "key")] = make(depth + 1)
			}
			return out
		}
		return make(0)
	})
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		text, err := json.MarshalIndent(v, "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		first, rest := document.JSONValue(append(append([]byte(" "), text...), " [1] 2"...))
		if string(first) != string(text) || string(rest) != " [1] 2" {
			t.Fatalf("%q and %q of %q", first, rest, text)
		}
		var members map[string]json.RawMessage
		var list []json.RawMessage
		switch v.(type) {
		case map[string]any:
			if err := json.Unmarshal(text, &members); err != nil {
				t.Fatal(err)
			}
		case []any:
			if err := json.Unmarshal(text, &list); err != nil {
				t.Fatal(err)
			}
		}
		ok := document.JSONMembers(text, func(key string, value []byte) bool {
			if string(members[key]) != string(value) {
				t.Fatalf("%q is %q, want %q", key, value, members[key])
			}
			delete(members, key)
			return true
		})
		if _, is := v.(map[string]any); ok != is || len(members) > 0 {
			t.Fatalf("%v, and %d members are missing", ok, len(members))
		}
		i := 0
		ok = document.JSONElements(text, func(value []byte) bool {
			if string(list[i]) != string(value) {
				t.Fatalf("element %d is %q, want %q", i, value, list[i])
			}
			i++
			return true
		})
		if _, is := v.([]any); ok != is || i != len(list) {
			t.Fatalf("%v, and %d of %d elements", ok, i, len(list))
		}
	})
}

func FuzzParseRuns(f *testing.F) {
	for _, seed := range []string{`{`, `[`, `[{"schema_version":"1.0.0"},`, `{"schema_version":"1.1.0","workload":"w","step":{"runs":[[1,2]]}}`, `[[[["\"`, `{"a":}`, `{"\u0061":1 "b":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := document.Runs(text, "x"); err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%v is no input error", err)
		}
		var d aDocument
		if err := document.DecodeJSON(text, &d); err == nil && !json.Valid(text) {
			t.Error("what is no JSON was decoded")
		}
		document.JSONMembers(text, func(string, []byte) bool { return true })
		document.JSONElements(text, func([]byte) bool { return true })
		for rest := text; len(rest) > 0; {
			var value []byte
			if value, rest = document.JSONValue(rest); len(value) == 0 {
				break
			}
		}
	})
}

func TestMemorySetting(t *testing.T) {
	for text, want := range map[string]int64{"": 512 << 20, "1GiB": 1 << 30, "2GB": 2e9, "1.5 MiB": 3 << 19, "4194304": 4 << 20, "64M": 64 << 20} {
		t.Setenv(outside.MemoryVariable, text)
		if got := outside.DocumentMemory(); got != want || outside.CheckMemorySetting() != nil {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"much", "-1GiB", "0", "12", "1e300", "NaN", "1 furlong"} {
		t.Setenv(outside.MemoryVariable, text)
		if err := outside.CheckMemorySetting(); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
		if outside.DocumentMemory() != 512<<20 || outside.TraceMemory() != 2<<30 {
			t.Errorf("%q changes what is read", text)
		}
	}
}
