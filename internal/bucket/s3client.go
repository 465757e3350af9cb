package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/gpuprof/gpuprof/internal/outside"
)

const (
	firstRegion = "us-east-1" // answers requests about buckets of other regions with their region
	attempts    = 6           // for one request
	// pageEntries is the number of entries that each page of a list counts in addition to its names, against the limit of
	// entries: an empty page costs a request too.
	pageEntries = 256
)

// client makes the four requests that a Bucket needs.
type client struct {
	service   *url.URL
	bucket    string
	region    atomic.Pointer[string] // given by the user, or last named by the service
	keys      *credentials.Credentials
	transport http.RoundTripper
	limit     time.Duration // time limit of a request: requestTime, except in tests
}

func newClient(service *url.URL, bucket, region string, keys *credentials.Credentials) *client {
	c := &client{service: service, bucket: bucket, keys: keys, transport: http.DefaultTransport, limit: requestTime}
	region = cmp.Or(region, s3utils.GetRegionFromURL(*service), firstRegion)
	c.region.Store(&region)
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = time.Minute
		t.MaxResponseHeaderBytes = 64 << 10
		t.DisableCompression = true
		c.transport = t
	}
	return c
}

// newCore returns minio's client for one call. As the region is given, minio does not request the bucket's location,
// for which the keys may lack the right.
func (c *client) newCore(ctx context.Context, region string) (*minio.Core, error) {
	core, err := minio.NewCore(c.service.Host, &minio.Options{
		Creds: c.keys, Secure: c.service.Scheme == "https", Region: region, MaxRetries: attempts,
		Transport: &guard{ctx: ctx, next: c.transport, service: c.service.Host, limit: c.limit},
	})
	if err == nil {
		core.SetS3EnableDualstack(false)
	}
	return core, err
}

// retryCall makes a call. It repeats the call if the service names another region, or an answer is truncated.
func (c *client) retryCall(ctx context.Context, call func(*minio.Core) error) error {
	for attempt := 1; ; attempt++ {
		region := *c.region.Load()
		core, err := c.newCore(ctx, region)
		if err == nil {
			err = call(core)
		}
		var answer minio.ErrorResponse
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &answer) && answer.Region != "" && answer.Region != region && attempt == 1:
			c.region.Store(&answer.Region)
		case !errors.Is(err, io.ErrUnexpectedEOF) || attempt == attempts:
			return err
		}
	}
}

func (c *client) get(ctx context.Context, key string) (content []byte, err error) {
	err = c.retryCall(ctx, func(core *minio.Core) error {
		body, _, _, err := core.GetObject(ctx, c.bucket, key, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		content, err = readBounded(body)
		return err
	})
	return content, err
}

// put writes an object in one request, which is signed with the content's hash.
func (c *client) put(ctx context.Context, key string, content []byte) error {
	sum := sha256.Sum256(content)
	return c.retryCall(ctx, func(core *minio.Core) error {
		_, err := core.PutObject(ctx, c.bucket, key, bytes.NewReader(content), int64(len(content)), "", hex.EncodeToString(sum[:]),
			minio.PutObjectOptions{ContentType: "application/zstd", DisableContentSha256: true})
		return err
	})
}

func (c *client) remove(ctx context.Context, key string) error {
	return c.retryCall(ctx, func(core *minio.Core) error {
		return core.RemoveObject(ctx, c.bucket, key, minio.RemoveObjectOptions{})
	})
}

// list returns the keys with a prefix, within the limit of entries.
func (c *client) list(ctx context.Context, prefix string) ([]string, error) {
	room := outside.NewEntries()
	var keys []string
	for token := ""; ; {
		var page minio.ListBucketV2Result
		err := c.retryCall(ctx, func(core *minio.Core) (err error) {
			page, err = core.ListObjectsV2(c.bucket, prefix, "", token, "", 0)
			return err
		})
		if err == nil {
			err = room.Take(len(page.Contents) + pageEntries)
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			if strings.HasSuffix(o.Key, "/") { // folder marker that S3 browsers write
				continue
			}
			if err := checkName(o.Key); err != nil {
				return nil, fmt.Errorf("listing the objects below %q: %w", prefix, err)
			}
			if !strings.HasPrefix(o.Key, prefix) {
				return nil, fmt.Errorf("the list of objects below %s names %q, which is elsewhere", prefix, o.Key)
			}
			keys = append(keys, o.Key)
		}
		if !page.IsTruncated {
			return keys, nil
		}
		if page.NextContinuationToken == token {
			return nil, errors.New("the list of objects does not end: its next page has no new name")
		}
		token = page.NextContinuationToken
	}
}
