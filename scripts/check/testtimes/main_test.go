package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"run.json": `{"Action":"start","Package":"github.com/gpuprof/gpuprof/a"}
{"Action":"pass","Package":"github.com/gpuprof/gpuprof/a","Test":"TestLong","Elapsed":11}
{"Action":"pass","Package":"github.com/gpuprof/gpuprof/a","Test":"TestLong/part","Elapsed":30}
{"Action":"pass","Package":"github.com/gpuprof/gpuprof/a","Test":"TestShort","Elapsed":1}
{"Action":"pass","Package":"github.com/gpuprof/gpuprof/a","Elapsed":12.5}
# a line of the compiler
{"Action":"fail","Package":"github.com/gpuprof/gpuprof","Elapsed":2}
`,
		"graph.json": `[
{"Mode":"build","Package":"github.com/gpuprof/gpuprof/a","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:02Z","Cmd":["compile"]},
{"Mode":"build","Package":"github.com/gpuprof/gpuprof/a [github.com/gpuprof/gpuprof/a.test]","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:03Z","Cmd":["compile"]},
{"Mode":"link","Package":"github.com/gpuprof/gpuprof/a.test","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:01.5Z","Cmd":["link"]},
{"Mode":"build","Package":"github.com/gpuprof/gpuprof","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:01:00Z"},
{"Mode":"build","Package":"modernc.org/sqlite/lib","TimeStart":"2026-01-01T00:00:00Z","TimeDone":"2026-01-01T00:00:40Z","Cmd":["compile"]}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := run([]string{filepath.Join(dir, "run.json"), filepath.Join(dir, "graph.json")}, &b); err != nil {
		t.Fatal(err)
	}
	const want = `| package | compile | link | run | longest test |
|---|---:|---:|---:|---|
| a | 5.0 | 1.5 | 12.5 | TestLong 11.0 |
| (other modules) | 40.0 | 0.0 | 0.0 |  |
| 1 others | 0.0 | 0.0 | 2.0 |  |
| all | 45.0 | 1.5 | 14.5 |  |
`
	if b.String() != want {
		t.Errorf("the table is\n%s", &b)
	}
}
