package kserve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The name that a request gives the service, and the page that it comes from.
func TestGuard(t *testing.T) {
	s := &Server{Hosts: []string{"gpu7.example.org", "gpu7"}}
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"127.0.0.1:8000", "", 0}, {"[::1]:8000", "", 0}, {"[::1]", "", 0}, {"10.1.2.3", "", 0}, {"localhost:8000", "", 0}, {"LOCALHOST", "", 0},
		{"gpu7:80", "", 0}, {"localhost.:8000", "", 0}, {"gpu7.example.org.", "", 0}, {"GPU7.example.org", "", 0}, {"", "", 0},
		{"gpu7.evil.example", "", 421}, {"localhost.evil.example", "", 421}, {"127.0.0.1.evil.example:8000", "", 421}, {"evil", "", 421},
		{"localhost:8000", "http://localhost:8000", 0}, {"localhost:8000", "http://LOCALHOST:8000", 0},
		{"localhost:8000", "http://localhost:9000", 403}, {"localhost:8000", "https://evil.example", 403}, {"localhost:8000", "null", 403}, {"localhost:8000", "http://%zz", 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if status, err := s.guard(r); status != c.status || (err != nil) != (status != 0) {
			t.Errorf("host %q, origin %q: %d %v, want %d", c.host, c.origin, status, err, c.status)
		}
	}
}

// The elements of any JSON array and object are those that encoding/json finds.
func TestElements(t *testing.T) {
	leaf := rapid.SampledFrom([]string{`1`, `-2.5e3`, `"a,]}"`, `"\\"`, `"\"["`, `null`, `true`, `{}`, `[]`, `[1, [2,"]"]]`, `{"a,": {"b":"}"}}`, ` {"c":[{}]} `})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(leaf, 0, mostListed+3).Draw(t, "values")
		text := "[" + strings.Join(values, " ,\n") + "]"
		var got list[json.RawMessage]
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if got.more != (len(want) > mostListed) || len(got.first) != min(len(want), mostListed) {
			t.Fatalf("%s: %d elements, more %t", text, len(got.first), got.more)
		}
		for i, v := range got.first {
			if !bytes.Equal(v, want[i]) {
				t.Fatalf("%s: element %d is %s, want %s", text, i, v, want[i])
			}
		}
		var members []string
		for i, v := range values {
			members = append(members, fmt.Sprintf("\"%d\" : %s", i, v))
		}
		var p parameters
		if err := json.Unmarshal([]byte("{"+strings.Join(members, ",")+"}"), &p); (err == nil) != (len(values) <= mostListed) || err == nil && len(p) != len(values) {
			t.Fatalf("%d members: %v, %d", len(values), err, len(p))
		}
	})
}

// picture is a model of 64x64 pixels, with bodies of half a megabyte.
func picture() Model {
	return Model{Name: "one", In: Tensor{"x", Float32, []int{1, 3, 64, 64}}, Out: Tensor{"y", Float32, []int{1, 1}}}
}

// Any usual layout of a request's JSON is within the bounds: indented, nested, with escapes, and
// with the digits of a float64.
func TestLayoutsOfJSON(t *testing.T) {
	image := Model{Name: "one", In: Tensor{"x", Uint8, []int{1, 64, 64, 3}}, Out: Tensor{"y", Float32, []int{1, 1}}}
	for _, c := range []struct {
		m      Model
		number any
	}{{image, 255}, {picture(), -1.2345678901234567e-05}} {
		shape := c.m.In.Shape
		nested := c.number
		for i := len(shape) - 1; i >= 0; i-- {
			nested = slices.Repeat([]any{nested}, shape[i])
		}
		for _, data := range []any{nested, slices.Repeat([]any{c.number}, c.m.In.Len())} {
			for _, indent := range []string{"", "\t", "  ", "    "} {
				q := map[string]any{"id": "é☃", "inputs": []any{map[string]any{"name": "x", "shape": shape, "datatype": c.m.In.Datatype, "data": data}}}
				text, err := json.MarshalIndent(q, "", indent)
				if err != nil {
					t.Fatal(err)
				}
				text = bytes.Replace(text, []byte("é☃"), bytes.Repeat([]byte(`\u2603`), 1000), 1)
				if int64(len(text)) > c.m.MostBody() {
					t.Errorf("%v, indented by %q: %d bytes, of at most %d", shape, indent, len(text), c.m.MostBody())
				}
				if asked, err := c.m.Decode(make([]byte, c.m.In.Bytes()), text, NoHeader); err != nil || asked.ID != strings.Repeat("☃", 1000) {
					t.Errorf("%v, indented by %q: %v", shape, indent, err)
				}
			}
		}
	}
}

// Of an object that is given twice the later counts, so that they do not add up.
func TestParametersTwice(t *testing.T) {
	var q infer
	if err := json.Unmarshal([]byte(`{"parameters":{"a":1},"parameters":{"b":2}}`), &q); err != nil || len(q.Parameters) != 1 || string(q.Parameters["b"]) != "2" {
		t.Errorf("%v %v", q.Parameters, err)
	}
}
