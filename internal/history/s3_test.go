package history

import (
	"path/filepath"
	"testing"

	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/testkit/buckettest"
)

// TestStoreS3: a store in a bucket gives the report that one in a folder gives, pruned
// too.
func TestStoreS3(t *testing.T) {
	b, err := bucket.Open("s3://perf", bucket.Words{What: "store"}, buckettest.S3(t))
	if err != nil {
		t.Fatal(err)
	}
	far := NewStore(b, filepath.Join(t.TempDir(), "cache"))
	near, _ := filled(t, 20)
	for i := range 20 {
		seconds := 0.010 * (1 + 0.001*float64(i%5))
		if i >= 2*20/3 {
			seconds *= 1.1
		}
		if _, err := far.Add(t.Context(), madeSession(t, i, seconds)); err != nil {
			t.Fatal(err)
		}
	}
	look := func(s *Store) string {
		r := reported(t, s, Options{})
		r.Store = ""
		return text(t, r)
	}
	if look(far) != look(near) {
		t.Error("a bucket and a folder give different reports")
	}
	if pruned, _, err := far.Prune(t.Context(), Options{}, 0, began().AddDate(1, 0, 0), true); err != nil || len(pruned) > 0 {
		t.Fatal(len(pruned), err)
	}
	if look(far) != look(near) {
		t.Error("a pruned bucket gives another report")
	}
}
