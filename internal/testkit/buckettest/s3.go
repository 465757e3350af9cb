// Package buckettest has an object store for tests.
package buckettest

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// S3 starts an object store with a bucket named perf in this process until the test ends. It sets the environment
// variables for the store and returns os.Getenv.
func S3(t *testing.T) (getenv func(string) string) {
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
