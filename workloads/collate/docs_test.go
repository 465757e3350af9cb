package collate

import (
	"os"
	"strings"
	"testing"
)

// The documentation's tables are the code's.
func TestDocsListKnobsAndPresets(t *testing.T) {
	b, err := os.ReadFile("../../docs/collate.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, k := range New().Knobs() {
		kind := "tuning"
		if k.Model {
			kind = "model"
		}
		if row := "| `" + k.Name + "` | " + kind + " | `" + k.Default + "` |"; !strings.Contains(doc, row) {
			t.Errorf("docs/collate.md lacks the row %s", row)
		}
	}
	for _, p := range New().Presets() {
		if !strings.Contains(doc, "| `"+p.Name+"` |") {
			t.Errorf("docs/collate.md lacks preset %s", p.Name)
		}
	}
	for _, st := range stageNames {
		if !strings.Contains(doc, "`"+st+"`") {
			t.Errorf("docs/collate.md lacks stage %s", st)
		}
	}
	for _, f := range fields {
		if !strings.Contains(doc, "`"+f.name+"`") {
			t.Errorf("docs/collate.md lacks array %s", f.name)
		}
	}
}
