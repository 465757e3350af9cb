package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opening are the calls that open or list whatever a name leads to, and may wait for it for ever.
var opening = []string{
	"os.Open", "os.OpenFile", "os.ReadFile", "os.ReadDir", "os.DirFS", "os.OpenRoot", "os.OpenInRoot", "os.CopyFS", "os.WriteFile", "os.Create",
	"filepath.Walk", "filepath.WalkDir", "filepath.Glob", "syscall.Open", "unix.Open", "unix.Openat",
}

// opened are the files that may use them, and why; others open files with internal/outside.
var opened = map[string]string{
	"internal/outside/open.go":   "the package itself: the user names a pipe, or a new file is made",
	"internal/outside/folder.go": "the package itself",

	"cmd/gpuprof/internal/analyze/analyze_cut.go":        "makes a new file in a scratch folder",
	"cmd/gpuprof/internal/bisect/bisectcache.go":         "makes a new file in a new folder",
	"cmd/gpuprof/internal/program/runprogram_unix.go":    "locks the folder that was just made",
	"cmd/gpuprof/internal/program/runprogram_windows.go": "locks the folder that was just made",
	"cmd/gpuprof/internal/cli/tool.go":                   "reads this program's own file",
	"cmd/gpuprof/kmsg_linux.go":                          "the log of the kernel, without waiting",
	"internal/child/alive_linux.go":                      "the system's files",
	"internal/compare/baseline/lock.go":                  "makes a new file",
	"internal/compare/baseline/lock_unix.go":             "locks the folder of the store, which was just made",
	"workloads/device/cuda/hostmemory.go":                "the system's files",
	"workloads/device/cuda/info.go":                      "the system's files",
	"workloads/device/cuda/vendor.go":                    "lists the system's libraries and opens none",
	"internal/dynlib/open_linux.go":                      "the system's files",
	"workloads/device/host/device.go":                    "the system's files",
	"internal/owner/owner.go":                            "makes a new file, and reads the system's",
	"internal/owner/stat_linux.go":                       "the system's files",
	"internal/record/cupti.go":                           "lists the system's libraries and opens none",
	"internal/record/idle.go":                            "the system's files",
	"internal/record/inject_map_linux.go":                "maps the library that was just written",
	"internal/record/signals_unix.go":                    "the terminal",
	"internal/record/tree.go":                            "the system's files",
	"probes/machine/machine.go":                          "the system's files",
	"probes/nvml/locate.go":                              "the system's files",
	"probes/nvml/process.go":                             "the system's files",
	"report/github/github.go":                            "the step summary, which the environment names and may be a pipe",
	"report/runfile/write.go":                            "makes a new file, and flushes the folder that it is in",
	"workloads/collate/process_unix.go":                  "the system's files",
	"internal/compare/baseline/lock_windows.go":          "a lock file; Windows has no named pipes in folders",
}

// TestOpens: no production code opens, reads or lists with the calls of the system what others may
// have put there: a pipe in a folder would hold the program up.
func TestOpens(t *testing.T) {
	root := filepath.Join("..", "..")
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			// What builds or tests gpuprof, and reads its own repository.
			aside := []string{"scripts", "shared", "internal/testkit/sim", "workloads/device/cuda/machinecode/pack", "internal/testkit/fixture", "cmd/gpuprof/internal/testkit", "workloads/testkit/devicetest", "workloads/testkit/workloadtest"}
			if slices.Contains(aside, name) || slices.Contains([]string{"testdata", "gen"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			x, is := s.X.(*ast.Ident)
			if !is || !slices.Contains(opening, x.Name+"."+s.Sel.Name) {
				return true
			}
			if used[name] = true; opened[name] == "" {
				t.Errorf("%s: %s.%s may wait for ever for what it opens: use internal/outside, or name the reason in this test", fset.Position(n.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range opened {
		if !used[name] {
			t.Errorf("%s opens nothing so: take it from the list", name)
		}
	}
}
