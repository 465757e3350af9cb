package sim

import (
	"os"
	"path/filepath"
	"testing"
)

// TestObjects has two checkouts of the same content: they share what is compiled, but not an object that
// names its checkout, which a later build would look for where it is no longer.
func TestObjects(t *testing.T) {
	cache := t.TempDir()
	checkout := func(source string) *builder {
		b := &builder{root: t.TempDir(), cache: cache}
		for path, text := range map[string]string{
			deviceHeader:                      "",
			"workloads/op/x.cu":               source,
			"workloads/op/x.cuh":              "",
			filepath.Join(simFolder, "a.cpp"): source, filepath.Join(simFolder, "nvrtc.cpp"): source,
			filepath.Join(simFolder, "x.cuh"): "",
		} {
			path = filepath.Join(b.root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	objects := func(b *builder) map[string]string {
		parts, err := b.parts()
		if err != nil {
			t.Fatal(err)
		}
		to := make(map[string]string)
		for _, p := range parts {
			for _, u := range p.units {
				if to[u.path], err = b.object(u); err != nil {
					t.Fatal(err)
				}
			}
		}
		return to
	}
	const include = "#include \"x.cuh\"\n"
	one, two, other := objects(checkout(include)), objects(checkout(include)), objects(checkout(include+"int x;\n"))
	if len(one) != 3 {
		t.Fatalf("units %v, want a kernel, the driver's and NVRTC's", one)
	}
	for path, object := range one {
		if shared, names := object == two[path], filepath.Base(path) == "nvrtc.cpp"; shared == names {
			t.Errorf("%s: two checkouts share its object: %t, and it names its checkout: %t", path, shared, names)
		}
		if object == other[path] {
			t.Errorf("%s: the object of other content is taken", path)
		}
	}
}
