package record

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecorderIsFresh compares the libraries with the sources that they were made of, for
// machines without the compiler.
func TestRecorderIsFresh(t *testing.T) {
	sums, err := os.ReadFile("inject/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		if f := strings.Fields(line); len(f) == 2 {
			listed[f[1]] = f[0]
		}
	}
	files, err := filepath.Glob("inject/*.[chs]*")
	if err != nil || len(files) != len(listed) || len(files) < 10 {
		t.Fatalf("%v; %d files, and %d are listed", err, len(files), len(listed))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != listed[filepath.Base(path)] {
			t.Errorf("%s is another than the libraries were made of; run make inject", path)
		}
	}
}

// What the recorder writes is taken process by process, and a process that became another
// program is two.
func TestCUDAStatus(t *testing.T) {
	dir := t.TempDir()
	lines := `{"event":"file","pid":7,"file":"cuda-7.gpt"}
{"event":"recording","pid":7,"cupti":28}
half a line
{"event":"end","pid":7,"why":"exit","records":12,"own_ns":34,"lost":[1,2,3,4,5]}
{"event":"file","pid":7,"file":"cuda-7-1.gpt"}
{"event":"error","pid":8,"where":"subscribe","code":39,"other":"CUPTI for X","cupti":"/l/libcupti.so.12","version":28}
{"event":"aside","pid":9,"reason":"torch"}
`
	if err := os.WriteFile(filepath.Join(dir, cudaStatus), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	all := readCUDA(dir)
	if len(all) != 4 || all[0].Ended != "exit" || all[0].CUPTI != 28 || all[0].Records != 12 || len(all[0].Lost) != 5 || all[1].File != "cuda-7-1.gpt" || all[1].Ended != "" {
		t.Fatalf("%+v", all)
	}
	if e := all[2].Errors[0]; e.Code != 39 || e.Other != "CUPTI for X" || e.CUPTI != "/l/libcupti.so.12" || e.Version != 28 || all[3].Aside != "torch" {
		t.Errorf("%+v", all[2:])
	}
	if !cudaSettled(all[:1]) || cudaSettled(nil) || cudaSettled([]CUDAProcess{{CUPTI: 28}}) {
		t.Error("a recording that goes on is settled, or one that ended is not")
	}
}

// The library that fits the driver best comes first.
func TestFindCUPTI(t *testing.T) {
	root := t.TempDir()
	versions := map[string]int{"a": 28, "b": 22, "c": 130101, "d": 12, "e": 18}
	var path []string
	for name := range versions {
		dir := filepath.Join(root, name)
		path = append(path, dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "libcupti.so.12"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libcupti.so.12", filepath.Join(root, "a", "libcupti.so.12.9")); err != nil {
		t.Fatal(err)
	}
	ask := func(path string) (int, error) {
		if !strings.HasPrefix(path, root) {
			return 0, os.ErrInvalid // the machine's own
		}
		return versions[filepath.Base(filepath.Dir(path))], nil
	}
	env := []string{"LD_LIBRARY_PATH=" + strings.Join(path, string(os.PathListSeparator))}
	for driver, want := range map[int]string{12080: "b e a c", 13020: "c a b e", 0: "c a b e", 11080: "e b a c"} {
		found, searched := FindCUPTI(env, "", driver, ask)
		var got []string
		for _, c := range found {
			got = append(got, filepath.Base(filepath.Dir(c.Path)))
		}
		if strings.Join(got, " ") != want || len(searched) < 5 {
			t.Errorf("driver %d: %v, want %s", driver, got, want)
		}
	}
	// One that is there and does not answer is not said to be missing.
	none, searched := FindCUPTI(env, "", 0, func(string) (int, error) { return 0, os.ErrInvalid })
	if text, _ := missingCUPTI(searched); len(none) != 0 || !strings.Contains(text, "libcupti.so.12 does not, as without an NVIDIA driver") {
		t.Errorf("%v, %q", none, text)
	}
	if text, _ := missingCUPTI([]string{t.TempDir()}); !strings.Contains(text, "no libcupti was found (looked in") {
		t.Error(text)
	}
	if found, _ := FindCUPTI(nil, "", 0, func(string) (int, error) { return 0, os.ErrInvalid }); len(found) != 0 {
		t.Errorf("libraries that do not answer: %v", found)
	}
}

func TestReleaseOf(t *testing.T) {
	for version, want := range map[int]string{17: "11.7", 18: "12.0", 22: "12.4", 28: "12.9", 130001: "13.0", 130201: "13.2", 130500: "13.5", 12: "", 0: ""} {
		if got := ReleaseOf(version); got != want {
			t.Errorf("%d is %q, want %q", version, got, want)
		}
	}
}
