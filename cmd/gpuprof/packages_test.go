package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestPackageRecipes: the Homebrew formula and the conda recipe name the archives of the release that are there, each
// with its own checksum, and no other file.
func TestPackageRecipes(t *testing.T) {
	dir := t.TempDir()
	sums := map[string]string{}
	for _, target := range []string{"linux_amd64", "linux_arm64", "darwin_arm64", "linux_amd64_static"} {
		name := "gpuprof_v1.2.3-rc1_" + target + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	const program = `import sys; sys.path.insert(0, "../../scripts/dist"); import packages; packages.write(sys.argv[1], "v1.2.3-rc1", "shows why", 0)`
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", program, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	formula, err := os.ReadFile(filepath.Join(dir, "gpuprof.rb"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var recipe struct {
		Version int `yaml:"schema_version"`
		Package struct{ Name, Version string }
		Source  []struct {
			If   string
			Then struct {
				URL    string `yaml:"url"`
				SHA256 string `yaml:"sha256"`
			}
		}
		Build struct{ Script []string }
	}
	if err := yaml.Unmarshal(text, &recipe); err != nil {
		t.Fatal(err)
	}
	if recipe.Version != 1 || recipe.Package.Name != "gpuprof" || recipe.Package.Version != "1.2.3_rc1" || len(recipe.Source) != 3 || len(recipe.Build.Script) == 0 {
		t.Errorf("%+v", recipe)
	}
	for _, s := range recipe.Source {
		name := s.Then.URL[strings.LastIndex(s.Then.URL, "/")+1:]
		if sums[name] != s.Then.SHA256 || s.If == "" || strings.Contains(name, "static") {
			t.Errorf("%+v", s)
		}
		if want := "url \"" + s.Then.URL + "\"\n      sha256 \"" + s.Then.SHA256 + "\"\n"; !strings.Contains(string(formula), want) {
			t.Errorf("the formula lacks %s:\n%s", want, formula)
		}
	}
	if n := strings.Count(string(formula), "sha256 "); n != 3 || strings.Count(string(formula), " do\n") != strings.Count(string(formula), "\n    end\n")+strings.Count(string(formula), "\n  end\n")-1 {
		t.Errorf("%d checksums, or blocks that do not end:\n%s", n, formula)
	}
}
