package collate

import (
	"os"
	"strings"
	"testing"
)

// The documentation's tables are the code's; those of knobs and presets are
// checked for every workload at once, in cmd/gpuprof.
func TestDocsListStagesAndArrays(t *testing.T) {
	b, err := os.ReadFile("../../docs/collate.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, st := range allStages() {
		if !strings.Contains(doc, "`"+st.Name+"`") {
			t.Errorf("docs/collate.md lacks stage %s", st.Name)
		}
	}
	for _, f := range fields {
		if !strings.Contains(doc, "`"+f.name+"`") {
			t.Errorf("docs/collate.md lacks array %s", f.name)
		}
	}
}
