package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// served is a client of a service that the handler plays; it never waits.
func served(t *testing.T, handler http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pause := minio.DefaultRetryUnit
	t.Cleanup(func() { minio.DefaultRetryUnit = pause })
	minio.DefaultRetryUnit = 0
	return newClient(u, "perf", "", credentials.NewStaticV4("key", "secret", "token"))
}

// lastModified is a header that every object has.
const lastModified = "Fri, 27 Nov 2026 21:00:00 GMT"

// roundTrip is a transport that a test plays.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestS3Region: a bucket in another region is asked for there, as the service says where.
func TestS3Region(t *testing.T) {
	var seen []string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		scope := strings.Split(r.Header.Get("Authorization"), "/")
		seen = append(seen, scope[2])
		if r.Header.Get("X-Amz-Security-Token") != "token" {
			t.Error("the session's token is not sent")
		}
		if scope[2] != "eu-west-3" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>`)
		}
	})
	for range 2 {
		if err := c.put(t.Context(), "a", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(seen, []string{"us-east-1", "eu-west-3", "eu-west-3"}) {
		t.Errorf("regions %v", seen)
	}
}

// TestS3Retries: a service that is busy is asked again with the same content, one that
// refuses is not, and one that stays busy is given up.
func TestS3Retries(t *testing.T) {
	for _, test := range []struct {
		status, fails, want int
		failed              bool
	}{
		{http.StatusServiceUnavailable, 3, 4, false},
		{http.StatusServiceUnavailable, 100, attempts, true},
		{http.StatusTooManyRequests, 1, 2, false},
		{http.StatusForbidden, 1, 1, true},
		{http.StatusNotFound, 1, 1, true},
		{http.StatusOK, 0, 1, false},
	} {
		asked := 0
		c := served(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			if content, err := io.ReadAll(r.Body); err != nil || string(content) != "content" {
				t.Errorf("attempt %d brings %q (%v)", asked, content, err)
			}
			if asked <= test.fails {
				w.WriteHeader(test.status)
			}
		})
		err := c.put(t.Context(), "a", []byte("content"))
		if asked != test.want || err != nil != test.failed {
			t.Errorf("status %d, %d times: asked %d times, %v", test.status, test.fails, asked, err)
		}
	}
}

// TestS3Pages: a list of several pages is read whole, with names as they are, and one
// whose pages repeat ends in an error.
func TestS3Pages(t *testing.T) {
	loop := false
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case loop || r.URL.Query().Get("continuation-token") == "":
			fmt.Fprint(w, `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>n+1/=</NextContinuationToken><Contents><Key>a%2Bb</Key></Contents></ListBucketResult>`)
		case r.URL.Query().Get("continuation-token") == "n+1/=":
			fmt.Fprint(w, `<ListBucketResult><Contents><Key>c%2B</Key></Contents></ListBucketResult>`)
		}
	})
	keys, err := c.list(t.Context(), "")
	if err != nil || !slices.Equal(keys, []string{"a+b", "c%2B"}) {
		t.Errorf("%q (%v)", keys, err)
	}
	loop = true
	if _, err := c.list(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Error(err)
	}
}

// TestS3Address: where each service wants the name of the bucket.
func TestS3Address(t *testing.T) {
	for _, test := range []struct{ endpoint, bucket, region, want string }{
		{"", "perf", "", "https://perf.s3.us-east-1.amazonaws.com/a%20b/%2Bc"},
		{"", "perf", "eu-west-3", "https://perf.s3.eu-west-3.amazonaws.com/a%20b/%2Bc"},
		{"", "my.perf", "eu-west-3", "https://s3.eu-west-3.amazonaws.com/my.perf/a%20b/%2Bc"},
		{"", "perf", "cn-north-1", "https://perf.s3.cn-north-1.amazonaws.com.cn/a%20b/%2Bc"},
		{"http://localhost:9000/", "perf", "", "http://localhost:9000/perf/a%20b/%2Bc"},
		{"https://s3.eu-west-3.amazonaws.com", "perf", "", "https://perf.s3.eu-west-3.amazonaws.com/a%20b/%2Bc"},
		{"minio.lan", "perf", "", "https://minio.lan/perf/a%20b/%2Bc"},
	} {
		u, err := parseEndpoint(func(v string) string {
			if v == endpointVariable {
				return test.endpoint
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(u, test.bucket, test.region, nil)
		got := ""
		c.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Last-Modified": {lastModified}}, Body: http.NoBody}, nil
		})
		if _, err := c.get(t.Context(), "a b/+c"); err != nil || got != test.want {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
	for _, address := range []string{"ftp://a", "http://a/b", "http://", "http://[::1"} {
		if u, err := parseEndpoint(func(string) string { return address }); err == nil {
			t.Errorf("%s is read as %s", address, u)
		}
	}
}

// TestS3Redirects: the keys go to no other host than the one that the user named, whatever a
// request is and however it is redirected.
func TestS3Redirects(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked++
		t.Errorf("the other host gets %s %s with %v", r.Method, r.URL, r.Header)
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := served(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/perf/a", status) })
		_, listed := c.list(t.Context(), "")
		_, got := c.get(t.Context(), "a")
		put := c.put(t.Context(), "a", []byte("x"))
		for what, err := range map[string]error{"list": listed, "get": got, "put": put} {
			if err == nil || !strings.Contains(err.Error(), "redirects to") || asked > 0 {
				t.Errorf("%d, %s: %v", status, what, err)
			}
		}
	}
}

// TestS3Deadline: a service that does not answer, or that begins to and goes no further, is given
// up when the time of a request is over.
func TestS3Deadline(t *testing.T) {
	for name, begins := range map[string]bool{"no answer": false, "no body": true} {
		c := served(t, func(w http.ResponseWriter, r *http.Request) {
			if begins {
				w.Header().Set("Content-Length", "100")
				w.Header().Set("Last-Modified", lastModified)
				fmt.Fprint(w, "<")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		c.limit = time.Millisecond
		_, listed := c.list(t.Context(), "")
		_, got := c.get(t.Context(), "a")
		for what, err := range map[string]error{"list": listed, "get": got} {
			if err == nil || !strings.Contains(err.Error(), "did not answer within") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// TestS3Hostile: a list that does not end, a page of any length and names that lead elsewhere are
// refused, within the memory that a listing may take.
func TestS3Hostile(t *testing.T) {
	t.Setenv(outside.MemoryVariable, "1MiB")
	page := func(rest string) string {
		return "<ListBucketResult><EncodingType>url</EncodingType>" + rest + "</ListBucketResult>"
	}
	pages := 0
	for name, c := range map[string]struct {
		answer func(w io.Writer)
		want   string
	}{
		"tokens": {func(w io.Writer) {
			pages++
			fmt.Fprint(w, page(fmt.Sprintf("<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", pages)))
		}, "it holds more than 2048 files and folders"},
		"two tokens": {func(w io.Writer) {
			pages++
			fmt.Fprint(w, page(fmt.Sprintf("<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", pages%2)))
		}, "it holds more than 2048 files and folders"},
		"many keys": {func(w io.Writer) {
			fmt.Fprint(w, page(strings.Repeat("<Contents><Key>v1/a</Key></Contents>", 2049)))
		}, "it holds more than 2048 files and folders"},
		"long page": {func(w io.Writer) {
			fmt.Fprint(w, "<ListBucketResult><Message>")
			for range answerBytes >> 16 {
				fmt.Fprint(w, strings.Repeat("x", 1<<16))
			}
		}, "is larger than 32MiB"},
		"elements": {func(w io.Writer) {
			fmt.Fprint(w, page(strings.Repeat("<Contents/>", answerElements)))
		}, "has more than 65536 elements"},
		"up":       {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>v1/../../etc/passwd</Key></Contents>")) }, "is no name of an object"},
		"absolute": {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>/etc/passwd</Key></Contents>")) }, "is no name of an object"},
		"empty":    {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>v1//a</Key></Contents>")) }, "is no name of an object"},
		"control":  {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>v1/a%1b[31m</Key></Contents>")) }, "is no name of an object"},
		"line":     {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>v1/a%0ab</Key></Contents>")) }, "is no name of an object"},
		"long": {func(w io.Writer) {
			fmt.Fprint(w, page("<Contents><Key>v1/"+strings.Repeat("a", 1025)+"</Key></Contents>"))
		}, "is no name of an object"},
		"elsewhere": {func(w io.Writer) { fmt.Fprint(w, page("<Contents><Key>v2/a</Key></Contents>")) }, "which is elsewhere"},
	} {
		client := served(t, func(w http.ResponseWriter, _ *http.Request) { c.answer(w) })
		if _, err := client.list(t.Context(), "v1/"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	marks := served(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, page("<Contents><Key>v1/</Key></Contents><Contents><Key>v1/a</Key></Contents>"))
	})
	if keys, err := marks.list(t.Context(), "v1/"); err != nil || !slices.Equal(keys, []string{"v1/a"}) {
		t.Errorf("a mark of a folder: %q, %v", keys, err)
	}
}

// TestS3Proxy: a page that is no document of the service is no part of an error, and its status is.
func TestS3Proxy(t *testing.T) {
	for status, want := range map[int]string{http.StatusBadRequest: "HTTP status 400", http.StatusNotFound: "HTTP status 404", http.StatusForbidden: "is not permitted"} {
		c := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "<html><body>no\x1b[31m</body></html>")
		})
		_, err := (&s3{client: c, words: store()}).Get(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "html") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestS3Canceled: a listing ends when its context does, and is not tried again.
func TestS3Canceled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	c := served(t, func(_ http.ResponseWriter, r *http.Request) {
		asked++
		stop()
		<-r.Context().Done()
	})
	if _, err := c.list(ctx, ""); !errors.Is(err, context.Canceled) || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
