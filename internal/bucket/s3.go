package bucket

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/gpuprof/gpuprof"
)

// Environment variables of the AWS command line that locate a bucket.
const (
	endpointVariable = "AWS_ENDPOINT_URL_S3"
	anyEndpoint      = "AWS_ENDPOINT_URL"
	regionVariable   = "AWS_REGION"
	defaultRegion    = "AWS_DEFAULT_REGION"
	amazon           = "s3.amazonaws.com"
)

// s3 is a Bucket in an object store, below a prefix.
type s3 struct {
	client *client
	prefix string
	words  Words
}

// openS3 opens "bucket/prefix". Keys come from the first of: the environment, the files of the AWS command line and of
// MinIO's, a web identity, the machine's role.
func openS3(name string, w Words, getenv func(string) string) (*s3, error) {
	bucket, prefix, _ := strings.Cut(name, "/")
	refuse := func(cause error) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening the %s s3://%s: %w", w.What, name, cause).WithFix("give s3://bucket/prefix, and the address of a service that is not Amazon's in %s", endpointVariable)
	}
	if bucket == "" {
		return nil, refuse(errors.New("it names no bucket"))
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return nil, refuse(err)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		if err := checkName(prefix); err != nil {
			return nil, refuse(err)
		}
	}
	service, err := parseEndpoint(getenv)
	if err != nil {
		return nil, refuse(err)
	}
	region := cmp.Or(getenv(regionVariable), getenv(defaultRegion))
	c := newClient(service, bucket, region, newCredentials())
	if _, err := c.newCore(context.Background(), *c.region.Load()); err != nil {
		return nil, refuse(err)
	}
	return &s3{client: c, prefix: prefix, words: w}, nil
}

// parseEndpoint returns the address of the service.
func parseEndpoint(getenv func(string) string) (*url.URL, error) {
	address := cmp.Or(getenv(endpointVariable), getenv(anyEndpoint), amazon)
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, err
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "":
		return nil, errors.New(address + " is not the address of a service: scheme, host and port, no path")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// newCredentials looks for keys where the AWS command line does.
func newCredentials() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.FileMinioClient{},
		&credentials.IAM{Client: &http.Client{Transport: http.DefaultTransport, CheckRedirect: refuseRedirect, Timeout: requestTime}},
	})
}

// String implements Bucket.
func (s *s3) String() string { return "s3://" + path.Join(s.client.bucket, s.prefix) }

func (s *s3) objectKey(name string) string { return path.Join(s.prefix, name) }

// checkedKey returns the key of an object, and an error if the name is invalid.
func (s *s3) checkedKey(name string) (string, error) { return s.objectKey(name), checkName(name) }

// wrapError describes an error of the service. call is the request that failed.
func (s *s3) wrapError(doing, call string, err error) error {
	var answer minio.ErrorResponse
	errors.As(err, &answer)
	switch {
	case answer.Code == "NoSuchKey":
		return fs.ErrNotExist
	case answer.Code == "AccessDenied" || answer.Code == "Forbidden" || answer.Code == "" && answer.StatusCode == http.StatusForbidden:
		return gpuprof.Errorf(gpuprof.ErrInput, "%s the %s %s: %s is not permitted: %w", doing, s.words.What, s, call, err).WithFix("grant these keys s3:ListBucket, s3:GetObject and s3:PutObject, and s3:DeleteObject for prune")
	case answer.Code == "NoSuchBucket":
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s the %s %s: there is no such bucket: %w", doing, s.words.What, s, err).WithFix("make it, or give another %s", s.words.Give)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "%s the %s %s: %s: %w", doing, s.words.What, s, call, err).WithFix("check the network, the keys and %s, and repeat the command; stored objects stay", endpointVariable)
}

// List implements Bucket.
func (s *s3) List(ctx context.Context, folder string) ([]string, error) {
	under := s.prefix
	if under != "" {
		under += "/"
	}
	below := under
	if folder != "" {
		below = s.objectKey(folder) + "/"
	}
	keys, err := s.client.list(ctx, below)
	if err != nil {
		return nil, s.wrapError("listing", "ListObjectsV2", err)
	}
	for i, k := range keys {
		keys[i] = strings.TrimPrefix(k, under)
	}
	return keys, nil
}

// Get implements Bucket.
func (s *s3) Get(ctx context.Context, name string) ([]byte, error) {
	key, err := s.checkedKey(name)
	if err != nil {
		return nil, s.wrapError("reading from", "GetObject", err)
	}
	content, err := s.client.get(ctx, key)
	if err != nil {
		return nil, s.wrapError("reading "+name+" of", "GetObject", err)
	}
	return content, nil
}

// Put implements Bucket.
func (s *s3) Put(ctx context.Context, name string, content []byte) error {
	key, err := s.checkedKey(name)
	if err == nil {
		err = s.client.put(ctx, key, content)
	}
	if err != nil {
		return s.wrapError("writing "+name+" to", "PutObject", err)
	}
	return nil
}

// Remove implements Bucket.
func (s *s3) Remove(ctx context.Context, name string) error {
	key, err := s.checkedKey(name)
	if err == nil {
		err = s.client.remove(ctx, key)
	}
	if err == nil {
		return nil
	}
	if err = s.wrapError("removing "+name+" of", "DeleteObject", err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
