package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/gpuprof/gpuprof/internal/outside"
)

const (
	firstRegion = "us-east-1" // answers for a bucket elsewhere with its region
	attempts    = 6           // of one request
	firstPause  = 200 * time.Millisecond
	longPause   = 2 * time.Second
	answerBytes = 32 << 20 // of a page of a list, which has at most 1,000 names
	// requestTime is how long a request may take, from its sending to the last byte of the answer,
	// and a further second for each so many bytes that it may bring or take: a slow line.
	requestTime = time.Minute
	slowLine    = 1 << 20
	// pageEntries is how many names a page counts for beside its own: one without any takes a
	// request as well.
	pageEntries = 256
)

// client makes the four requests that a Bucket needs of an object store. The client of
// the library that signs them knows sixty, and is 3 MB of the program.
type client struct {
	service *url.URL
	bucket  string
	region  atomic.Pointer[string] // what the user gave or the service named last
	keys    *credentials.Credentials
	http    *http.Client
	limit   time.Duration // requestTime
	pause   func(ctx context.Context, attempt int) error
}

func newClient(service *url.URL, bucket, region string, keys *credentials.Credentials) *client {
	c := &client{service: service, bucket: bucket, keys: keys, http: &http.Client{CheckRedirect: noRedirect}, limit: requestTime, pause: pause}
	region = cmp.Or(region, s3utils.GetRegionFromURL(*service), firstRegion)
	c.region.Store(&region)
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = time.Minute
		t.MaxResponseHeaderBytes = 64 << 10
		c.http.Transport = t
	}
	return c
}

// noRedirect follows none: the signature and the session's token in the headers are for the
// service that the user named. Another region is asked under the name that gpuprof makes of it.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// pause waits twice as long before each further attempt.
func pause(ctx context.Context, attempt int) error {
	select {
	case <-time.After(min(firstPause<<attempt, longPause)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type request struct {
	method, key string
	query       url.Values
	content     []byte
}

// refusal is an answer of the service that is not success.
type refusal struct {
	Status  int `xml:"-"`
	Code    string
	Message string
	Region  string
}

func (r *refusal) Error() string {
	return cmp.Or(r.Message, r.Code, fmt.Sprintf("HTTP status %d", r.Status))
}

// code is what the service names the refusal; one without a document has its status only.
func (r *refusal) code() string {
	switch {
	case r == nil:
		return ""
	case r.Code == "" && r.Status == http.StatusForbidden:
		return "AccessDenied"
	}
	return r.Code
}

// passing is true of a refusal that a repetition can end.
func (r *refusal) passing() bool {
	return r.Status >= 500 && r.Status != http.StatusNotImplemented || r.Status == http.StatusTooManyRequests || r.Status == http.StatusRequestTimeout ||
		slices.Contains([]string{"SlowDown", "RequestTimeout", "InternalError", "Throttling", "RequestLimitExceeded"}, r.Code)
}

// list is every key that begins with prefix, of as many as memory has room for.
func (c *client) list(ctx context.Context, prefix string) ([]string, error) {
	room := outside.NewEntries()
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
	var keys []string
	for {
		var page struct {
			EncodingType          string
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct{ Key string }
		}
		err := c.do(ctx, request{method: http.MethodGet, query: query}, func(body io.Reader) error {
			page.Contents = nil // of an attempt that broke off
			part := &io.LimitedReader{R: body, N: answerBytes}
			err := xml.NewDecoder(part).Decode(&page)
			if err != nil && part.N <= 0 {
				err = fmt.Errorf("a page of the list of objects is larger than %s", outside.MemoryText(answerBytes))
			}
			return err
		})
		if err == nil {
			err = room.Take(len(page.Contents) + pageEntries)
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			key := o.Key
			if page.EncodingType == "url" {
				if key, err = url.QueryUnescape(key); err != nil {
					return nil, err
				}
			}
			if strings.HasSuffix(key, "/") { // a browser's mark for a folder
				continue
			}
			if err := checkName(key); err != nil {
				return nil, fmt.Errorf("listing the objects below %q: %w", prefix, err)
			}
			if !strings.HasPrefix(key, prefix) {
				return nil, fmt.Errorf("the list of objects below %s names %q, which is elsewhere", prefix, key)
			}
			keys = append(keys, key)
		}
		if !page.IsTruncated {
			return keys, nil
		}
		if page.NextContinuationToken == "" || page.NextContinuationToken == query.Get("continuation-token") {
			return nil, errors.New("the list of objects does not end: its next page has no new name")
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// do makes a request, again where the connection or the service fails for the moment or
// names another region. read, which may be nil, gets the answer, again for each attempt.
func (c *client) do(ctx context.Context, r request, read func(io.Reader) error) error {
	for attempt := 0; ; attempt++ {
		region := *c.region.Load()
		err := c.once(ctx, region, r, read)
		var answer *refusal
		refused := errors.As(err, &answer)
		if refused && answer.Region != "" && answer.Region != region && attempt == 0 {
			c.region.Store(&answer.Region)
			continue
		}
		if err == nil || attempt+1 == attempts || refused && !answer.passing() || !refused && !broken(ctx, err) {
			return err
		}
		if stopped := c.pause(ctx, attempt); stopped != nil {
			return err
		}
	}
}

// broken is true of a connection that failed and may work the next time.
func broken(ctx context.Context, err error) bool {
	var link *url.Error
	var unknown x509.UnknownAuthorityError
	return ctx.Err() == nil && !errors.As(err, &unknown) && (errors.As(err, &link) || errors.Is(err, io.ErrUnexpectedEOF))
}

func (c *client) once(ctx context.Context, region string, r request, read func(io.Reader) error) error {
	bytes := int64(len(r.content))
	if read != nil {
		bytes += outside.DocumentText()
	}
	limit := c.limit + time.Duration(bytes/slowLine)*c.limit/(requestTime/time.Second)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the service did not answer within %s", limit))
	defer stop()
	err := c.request(ctx, region, r, read)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// request makes one request, whose answer is read before ctx ends.
func (c *client) request(ctx context.Context, region string, r request, read func(io.Reader) error) error {
	signed, err := c.signed(ctx, region, r)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(signed)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		no := &refusal{}
		// A proxy's page is no document of the service: the status speaks for it.
		if xml.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(no) != nil {
			no = &refusal{}
		}
		no.Status = answer.StatusCode
		no.Region = cmp.Or(answer.Header.Get("X-Amz-Bucket-Region"), no.Region)
		if to, err := answer.Location(); err == nil && no.Message == "" {
			no.Message = fmt.Sprintf("the service %s redirects to %q, and the keys are not sent there", c.service.Host, to.Host)
		}
		return no
	}
	if read == nil {
		return nil
	}
	return read(answer.Body)
}

// signed is the request with signature version 4, or without one where there are no keys.
func (c *client) signed(ctx context.Context, region string, r request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.address(region, r).String(), bytes.NewReader(r.content))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(r.content)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	req.Header.Set("Accept-Encoding", "identity")
	if r.method == http.MethodPut {
		req.Header.Set("Content-Type", "application/zstd")
	}
	k, err := c.keys.GetWithContext(&credentials.CredContext{Client: c.http})
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	return signer.SignV4(*req, k.AccessKeyID, k.SecretAccessKey, k.SessionToken, region), nil
}

// address names the bucket in the host where the service is Amazon's, and in the path elsewhere:
// as MinIO and Ceph want it, and where a dot in the name would not fit Amazon's certificate.
func (c *client) address(region string, r request) *url.URL {
	u := *c.service
	inHost := s3utils.IsVirtualHostSupported(u, c.bucket)
	if u.Host == amazon {
		u.Host = "s3." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			u.Host += ".cn"
		}
	}
	u.Path = "/" + r.key
	if inHost {
		u.Host = c.bucket + "." + u.Host
	} else {
		u.Path = "/" + c.bucket + u.Path
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	u.RawQuery = r.query.Encode()
	return &u
}
