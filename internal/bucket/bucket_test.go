package bucket

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/buckettest"
)

// store is what the buckets of these tests are called.
func store() Words { return Words{What: "store", Give: "with --store"} }

func TestBucketFolder(t *testing.T) { bucketLaws(t, &Folder{Dir: t.TempDir(), Words: store()}) }

// bucketLaws checks the properties common to all buckets.
func bucketLaws(t *testing.T, b Bucket) {
	t.Helper()
	ctx := t.Context()
	if names, err := b.List(ctx, ""); err != nil || len(names) != 0 {
		t.Fatalf("an empty one lists %v (%v)", names, err)
	}
	if _, err := b.Get(ctx, "v1/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("what is not there: %v", err)
	}
	for _, name := range []string{"v1/a/x", "v1/b/x", "v1/a/y"} {
		for range 2 {
			if err := b.Put(ctx, name, []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	names, err := b.List(ctx, "")
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"v1/a/x", "v1/a/y", "v1/b/x"}) {
		t.Fatalf("%v (%v)", names, err)
	}
	if names, err = b.List(ctx, "v1/b"); err != nil || !slices.Equal(names, []string{"v1/b/x"}) {
		t.Fatalf("%v (%v)", names, err)
	}
	if got, err := b.Get(ctx, "v1/a/y"); err != nil || string(got) != "v1/a/y" {
		t.Fatalf("%q (%v)", got, err)
	}
	for range 2 {
		if err := b.Remove(ctx, "v1/a/y"); err != nil {
			t.Fatal(err)
		}
	}
	if names, err = b.List(ctx, "v1"); err != nil || len(names) != 2 {
		t.Fatalf("%v (%v)", names, err)
	}
	refusesNames(t, b)
}

// No name leads out of a bucket, whichever kind of bucket it is.
func refusesNames(t *testing.T, b Bucket) {
	t.Helper()
	for _, name := range []string{"", ".", "..", "../a", "v1/../../a", "/a", "v1//a", "v1/", "v1/./a", "a\x1b[31m", "a\nb", "a\\b", strings.Repeat("a", 1025)} {
		_, got := b.Get(t.Context(), name)
		for what, err := range map[string]error{"get": got, "put": b.Put(t.Context(), name, []byte("x")), "remove": b.Remove(t.Context(), name)} {
			if err == nil || !strings.Contains(err.Error(), "is no name of an object") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

func TestBucketS3(t *testing.T) {
	b, err := Open("s3://perf/team/gpuprof", store(), buckettest.S3(t))
	if err != nil {
		t.Fatal(err)
	}
	bucketLaws(t, b)
}

// TestS3Refusals: what the service refuses is named with the request.
func TestS3Refusals(t *testing.T) {
	getenv := buckettest.S3(t)
	for name, want := range map[string]string{"s3://": "names no bucket", "s3://other": "there is no such bucket", "gs://perf": "neither a folder", "s3://perf/a/../b": "is no name of an object", "s3://perf/a//b": "is no name of an object"} {
		b, err := Open(name, store(), getenv)
		if err == nil {
			_, err = b.List(t.Context(), "")
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "store") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
