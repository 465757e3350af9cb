package input

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// TestPlacesFromHere: places below the present folder are relative, and others stay.
func TestPlacesFromHere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	shorten := fromHere()
	found := []gpuprof.Finding{{Title: "waits at " + dir + "/train.py:3", Sites: []gpuprof.Site{{Where: dir + "/lib/a.py:4 in f"}, {Where: dir + "-other/b.py:5"}}}}
	shortenFindings(found, shorten)
	if f := found[0]; f.Title != "waits at train.py:3" || f.Sites[0].Where != "lib/a.py:4 in f" || f.Sites[1].Where != dir+"-other/b.py:5" {
		t.Errorf("%+v", f)
	}
	a := &memsnap.Analysis{Devices: []memsnap.Device{{Growth: []memsnap.Growth{{Where: dir + "/train.py:7"}}, Peak: memsnap.Moment{Sites: []memsnap.SiteBytes{{Where: dir + "/train.py:8"}}}}}}
	shortenMemory(a, shorten)
	if d := a.Devices[0]; d.Growth[0].Where != "train.py:7" || d.Peak.Sites[0].Where != "train.py:8" {
		t.Errorf("%+v", d)
	}
}
