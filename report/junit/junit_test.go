package junit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/junit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t testing.TB, c *compare.Comparison, o junit.Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := junit.Write(&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	o := junit.Options{Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600)), Host: "ci-7"}
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure()} {
		got, path := render(t, c, o), filepath.Join("testdata", name+".xml")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, got, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s differs (-want +got); run the test with -update if it is meant:\n%s", name, d)
		}
	}
}

// node is any element.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Kids    []node     `xml:",any"`
}

func (n *node) attr(name string) (string, bool) {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}

var (
	decimal  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	millis   = regexp.MustCompile(`^[0-9]+(\.[0-9]{0,3})?$`)
	whole    = regexp.MustCompile(`^[0-9]+$`)
	datetime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$`)
)

// valid checks the rules that the schemas of the Ant task and of Jenkins
// agree on: elements in their order, the attributes required and no other,
// numbers that are numbers, and counts that count.
func valid(doc []byte) error {
	var root node
	if err := xml.Unmarshal(doc, &root); err != nil {
		return err
	}
	if root.XMLName.Local != "testsuites" || len(root.Attrs) != 0 || len(root.Kids) != 1 {
		return fmt.Errorf("the root is %s with %d attributes and %d suites", root.XMLName.Local, len(root.Attrs), len(root.Kids))
	}
	s := &root.Kids[0]
	if err := attributes(s, map[string]*regexp.Regexp{
		"name": nil, "package": nil, "hostname": nil, "id": whole, "tests": whole, "failures": whole, "errors": whole, "skipped": whole, "time": millis, "timestamp": datetime,
	}); err != nil {
		return err
	}
	order := []string{"properties", "testcase", "system-out", "system-err"}
	at, counts := 0, map[string]int{}
	for i := range s.Kids {
		k := &s.Kids[i]
		for at < len(order) && order[at] != k.XMLName.Local {
			at++
		}
		if at == len(order) {
			return fmt.Errorf("%s is out of order", k.XMLName.Local)
		}
		counts[k.XMLName.Local]++
		if k.XMLName.Local != "testcase" {
			continue
		}
		if err := attributes(k, map[string]*regexp.Regexp{"name": nil, "classname": nil, "time": decimal}); err != nil {
			return err
		}
		if len(k.Kids) > 1 {
			return errors.New("a case has two outcomes")
		}
		for j := range k.Kids {
			o := &k.Kids[j]
			if n := o.XMLName.Local; n != "failure" && n != "error" && n != "skipped" {
				return fmt.Errorf("a case has a %s", n)
			}
			want := map[string]*regexp.Regexp{"message": nil, "type": nil}
			if o.XMLName.Local == "skipped" {
				delete(want, "type")
			}
			if err := attributes(o, want); err != nil {
				return err
			}
			counts[o.XMLName.Local]++
		}
	}
	if counts["properties"] != 1 || counts["system-out"] != 1 || counts["system-err"] != 1 {
		return fmt.Errorf("parts are missing: %v", counts)
	}
	for name, part := range map[string]string{"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"} {
		if v, _ := s.attr(name); v != strconv.Itoa(counts[part]) {
			return fmt.Errorf("%s is %s and there are %d", name, v, counts[part])
		}
	}
	return nil
}

func attributes(n *node, want map[string]*regexp.Regexp) error {
	if len(n.Attrs) != len(want) {
		return fmt.Errorf("%s has attributes %v", n.XMLName.Local, n.Attrs)
	}
	for name, form := range want {
		v, ok := n.attr(name)
		if !ok || form == nil && (v == "" && name != "message" || strings.ContainsAny(v, "\n\t") || v != strings.TrimSpace(v)) || form != nil && !form.MatchString(v) {
			return fmt.Errorf("%s has %s=%q", n.XMLName.Local, name, v)
		}
	}
	return nil
}

// cases are name -> outcome ("" passed).
func cases(t testing.TB, doc []byte) map[string]string {
	t.Helper()
	var root node
	if err := xml.Unmarshal(doc, &root); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, k := range root.Kids[0].Kids {
		if k.XMLName.Local != "testcase" {
			continue
		}
		name, _ := k.attr("name")
		if _, ok := out[name]; ok {
			t.Errorf("two cases are named %q", name)
		}
		out[name] = ""
		for _, o := range k.Kids {
			out[name] = o.XMLName.Local
		}
	}
	return out
}

func TestValid(t *testing.T) {
	all := map[string]*compare.Comparison{
		"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure(), "hostile": fixture.GateHostile(),
		"256 regressions": fixture.GateMany(300, 256), "5,000 metrics": fixture.GateMany(5000, 5000), "empty": {},
	}
	for name, c := range all {
		doc := render(t, c, junit.Options{})
		if err := valid(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(doc) > junit.Limit {
			t.Errorf("%s: %d bytes", name, len(doc))
		}
		if want := len(c.Metrics) + len(c.Budgets) + len(c.Failed); len(cases(t, doc)) != want {
			t.Errorf("%s: %d cases, want %d", name, len(cases(t, doc)), want)
		}
	}
	broken := bytes.Replace(render(t, fixture.GateRegressed(), junit.Options{}), []byte(`failures="`), []byte(`failures="9`), 1)
	if valid(broken) == nil {
		t.Error("the check does not count")
	}
}

func TestOutcomes(t *testing.T) {
	got := cases(t, render(t, fixture.GateRegressed(), junit.Options{}))
	want := map[string]string{
		"step": "failure", "step/tensor_product": "failure", "step/collate": "skipped", "step/radial": "", "step/gate": "", "throughput": "failure",
		"launches": "failure", "sync_points": "", "energy_step": "skipped", "budget sync_points": "", "budget bytes_h2d_pageable": "failure", "step/scatter": "error",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestLimit: what passed goes first, failures stay, and the rest is counted.
func TestLimit(t *testing.T) {
	c := fixture.GateMany(5000, 256)
	doc := render(t, c, junit.Options{Limit: 800_000})
	if err := valid(doc); err != nil || len(doc) > 800_000 {
		t.Fatal(err, len(doc))
	}
	failures := 0
	got := cases(t, doc)
	for _, o := range got {
		if o == "failure" {
			failures++
		}
	}
	if failures != 256 || len(got) == 5000 || !bytes.Contains(doc, []byte(fmt.Sprintf(`name="cases_left_out" value="%d"`, 5000-len(got)))) {
		t.Errorf("%d failures, %d cases", failures, len(got))
	}
	if tiny := render(t, c, junit.Options{Limit: 20_000}); len(tiny) > 20_000 || valid(tiny) != nil {
		t.Errorf("%d bytes, %v", len(tiny), valid(tiny))
	}
}

func TestNothing(t *testing.T) {
	if err := junit.Write(io.Discard, nil, junit.Options{}); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}
