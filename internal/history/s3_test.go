package history

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/gpuprof/gpuprof/internal/bucket"
)

// fakeS3 is an object store in this process with a bucket called perf, and the
// environment that leads to it.
func fakeS3(t *testing.T) func(string) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("perf"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	return os.Getenv
}

// TestStoreS3: a store in a bucket gives the report that one in a folder gives, packed
// and pruned too.
func TestStoreS3(t *testing.T) {
	b, err := bucket.Open("s3://perf", bucket.Words{What: "store"}, fakeS3(t))
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
	now := began().AddDate(1, 0, 0)
	if _, _, err := far.Pack(t.Context(), Filter{}, now); err != nil {
		t.Fatal(err)
	}
	if pruned, _, err := far.Prune(t.Context(), Options{}, 100*365*24*3600e9, now, true); err != nil || len(pruned) != 20 {
		t.Fatal(len(pruned), err)
	}
	if look(far) != look(near) {
		t.Error("a packed bucket gives another report")
	}
}
