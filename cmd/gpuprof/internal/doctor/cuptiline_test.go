package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/record"
)

// doctor tells a libcupti that is missing, one that does not answer, one that is too new and those that fit apart.
func TestCUPTILine(t *testing.T) {
	silent := t.TempDir()
	if err := os.WriteFile(filepath.Join(silent, "libcupti.so.13"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fits, newer := record.CUPTI{Path: "/a/libcupti.so.12", CUDA: 12090}, record.CUPTI{Path: "/b/libcupti.so.13", CUDA: 13000}
	for name, c := range map[string]struct {
		found              []record.CUPTI
		searched           []string
		state              gpuprof.CheckState
		says, saysNot, fix string
	}{
		"none":           {searched: []string{t.TempDir()}, state: gpuprof.Missing, says: "no libcupti: it is in none of 1 folders", fix: "install"},
		"does not speak": {searched: []string{silent}, state: gpuprof.Missing, says: "libcupti.so.13 does not answer", saysNot: "in none of", fix: "nvidia-smi"},
		"fits":           {found: []record.CUPTI{fits}, state: gpuprof.OK, says: "/a/libcupti.so.12, CUDA 12.9"},
		"several":        {found: []record.CUPTI{fits, newer}, state: gpuprof.OK, says: "/a/libcupti.so.12, CUDA 12.9, and 1 more"},
		"too new":        {found: []record.CUPTI{newer}, state: gpuprof.Missing, says: "newer than the driver, which is of CUDA 12.9", fix: "not newer"},
	} {
		l := cuptiLine(c.found, c.searched, 12090)
		text := l.Found + ": " + l.Reason
		if l.State != c.state || !strings.Contains(text, c.says) || c.saysNot != "" && strings.Contains(text, c.saysNot) || !strings.Contains(l.Fix, c.fix) {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
