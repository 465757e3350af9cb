package bucket

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/gpuprof/gpuprof/internal/outside"
)

const (
	answerBytes    = 32 << 20 // bytes of a page of a list, which has at most 1,000 names
	answerElements = 1 << 16  // XML elements of a page, 22 per name: the library allocates 700 bytes for the shortest
	refusalBytes   = 1 << 20
	// requestTime limits a request, from sending to the last byte of the answer. For slow networks, a second is added
	// per slowLine bytes of the request and the expected answer.
	requestTime = time.Minute
	slowLine    = 1 << 20
)

// guard is the transport of one call. It limits the time of each request, and the size of answers that the library
// parses. It reports redirects and follows none.
type guard struct {
	ctx     context.Context // context of the call, since the library lists without one
	next    http.RoundTripper
	service string
	limit   time.Duration
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	size, most := r.ContentLength, int64(answerBytes)
	if r.Method == http.MethodGet {
		size += outside.DocumentText()
		if !r.URL.Query().Has("list-type") {
			most = math.MaxInt64 // the reader of an object has its own limit
		}
	}
	limit := g.limit + time.Duration(size/slowLine)*g.limit/(requestTime/time.Second)
	ctx, stop := context.WithTimeoutCause(g.ctx, limit, fmt.Errorf("the service did not answer within %s", limit))
	answer, err := g.next.RoundTrip(r.WithContext(ctx))
	switch {
	case err == nil:
		answer.Body = &answerBody{ReadCloser: answer.Body, ctx: ctx, stop: stop, bytes: most, elements: answerElements}
		if answer.StatusCode/100 != 2 {
			g.describeRefusal(answer)
		}
		return answer, nil
	case g.ctx.Err() != nil: // the library would retry after an error
		answer, err = &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Request: r}, nil
		setMessage(answer, g.ctx.Err().Error())
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	stop()
	return answer, err
}

// describeRefusal replaces an answer that is no error document of the service, such as a proxy's page, by an error
// document.
func (g *guard) describeRefusal(answer *http.Response) {
	var document struct{ Code, Message string }
	page, err := io.ReadAll(io.LimitReader(answer.Body, refusalBytes))
	_ = answer.Body.Close()
	if err == nil && xml.Unmarshal(page, &document) == nil && cmp.Or(document.Code, document.Message) != "" {
		answer.Body = io.NopCloser(bytes.NewReader(page))
		return
	}
	message := fmt.Sprintf("HTTP status %d", answer.StatusCode)
	if to, err := answer.Location(); err == nil {
		message = fmt.Sprintf("the service %s redirects to %q, and the keys are not sent there", g.service, to.Host)
	}
	setMessage(answer, message)
}

// setMessage replaces an answer's body by an error document with the message.
func setMessage(answer *http.Response, message string) {
	var text bytes.Buffer
	_ = xml.EscapeText(&text, []byte(message))
	answer.Body = io.NopCloser(bytes.NewReader(fmt.Appendf(nil, "<Error><Message>%s</Message></Error>", text.Bytes())))
}

// refuseRedirect follows no redirect: the signature and the session token in the headers are only for the named
// service.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// answerBody returns an error beyond its limits of time or size.
type answerBody struct {
	io.ReadCloser
	ctx             context.Context
	stop            func()
	bytes, elements int64 // remaining limits
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		return n, context.Cause(b.ctx)
	}
	if b.bytes == math.MaxInt64 {
		return n, err
	}
	b.bytes -= int64(n)
	b.elements -= int64(bytes.Count(p[:n], []byte("<")))
	switch {
	case b.bytes < 0:
		return 0, fmt.Errorf("a page of the list of objects is larger than %s", outside.MemoryText(answerBytes))
	case b.elements < 0:
		return 0, fmt.Errorf("a page of the list of objects has more than %d elements", answerElements)
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.stop()
	return b.ReadCloser.Close()
}
