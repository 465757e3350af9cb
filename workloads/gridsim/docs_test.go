package gridsim

import (
	"os"
	"strings"
	"testing"
)

// The documentation's tables are the code's; those of knobs and presets are
// checked for every workload at once, in cmd/gpuprof.
func TestDocsListStages(t *testing.T) {
	b, err := os.ReadFile("../../docs/gridsim.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range allStages() {
		if !strings.Contains(string(b), "`"+st.Name+"`") {
			t.Errorf("docs/gridsim.md lacks stage %s", st.Name)
		}
	}
}
