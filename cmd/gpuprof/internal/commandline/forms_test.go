package commandline

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar has the verbs that forms and renames need.
type grammar struct {
	Quiet     bool
	MaxTokens int

	RunProgram struct{} `cmd:"" name:"run --"`
	Run        struct {
		Name string `arg:"" optional:""`
	} `cmd:""`
	Watch struct {
		Dir string `arg:""`
	} `cmd:"" name:"run watch"`
	Record struct {
		Dir string `arg:""`
	} `cmd:"" name:"run record"`
	Check struct {
		Name string `arg:""`
	} `cmd:"" name:"run --check"`
	Exp struct {
		Name []string `arg:"" optional:""`
	} `cmd:"" name:"explain"`
	List struct {
		What string `arg:"" optional:""`
	} `cmd:"" name:"explain list"`
	Schema struct {
		Name string `arg:"" optional:""`
	} `cmd:"" name:"explain schema"`
	Hist struct {
		Show struct{} `cmd:"" default:"withargs"`
	} `cmd:"" name:"history"`
}

// Words of earlier versions become those of today, and the words of a form one; names of files and of workloads stay.
func TestCurrentAndJoined(t *testing.T) {
	k, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"check e3nn":                   "run --check,e3nn",
		"run e3nn --check":             "run --check,e3nn",
		"run --check=true e3nn":        "run --check,e3nn",
		"--quiet watch d":              "--quiet,run watch,d",
		"--max-tokens 900 record d":    "--max-tokens,900,run record,d",
		"run --quiet watch d":          "run watch,--quiet,d",
		"run e3nn":                     "run,e3nn",
		"run e3nn watch":               "run,e3nn,watch",
		"list knobs":                   "explain list,knobs",
		"explain list":                 "explain list",
		"explain item":                 "explain,item",
		"schema run":                   "explain schema,run",
		"baseline add x":               "history,baseline,add,x",
		"history check":                "history,check",
		"explain check":                "explain,check",
		"":                             "",
		"./check":                      "./check",
		"explain schema check --quiet": "explain schema,check,--quiet",
		"explain list list":            "explain list,list",
	} {
		words, _ := Current(k.Model.Node, strings.Fields(in))
		if got := strings.Join(Joined(k.Model.Node, words), ","); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
