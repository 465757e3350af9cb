package gruflow

import (
	"os"
	"strings"
	"testing"
)

// The documentation's tables are the code's; those of knobs and presets are
// checked for every workload at once, in cmd/gpuprof.
func TestDocsListStages(t *testing.T) {
	b, err := os.ReadFile("../../docs/gruflow.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, st := range allStages() {
		if !strings.Contains(doc, "`"+st.Name+"`") {
			t.Errorf("docs/gruflow.md lacks stage %s", st.Name)
		}
	}
}
