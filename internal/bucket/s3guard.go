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
	answerBytes    = 32 << 20 // of a page of a list, which has at most 1,000 names
	answerElements = 1 << 16  // of the same, which has 22 for a name: the library keeps 700 bytes for the shortest
	refusalBytes   = 1 << 20
	// requestTime is how long a request may take, from its sending to the last byte of the answer,
	// and a further second for each so many bytes that it may bring or take: a slow line.
	requestTime = time.Minute
	slowLine    = 1 << 20
)

// guard is the transport of one call: it gives each request a time of its own, bounds the answers
// that the library reads by itself, and explains a redirect, which is never followed.
type guard struct {
	ctx     context.Context // of the call: the library lists without one
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
			most = math.MaxInt64 // an object's reader has a limit
		}
	}
	limit := g.limit + time.Duration(size/slowLine)*g.limit/(requestTime/time.Second)
	ctx, stop := context.WithTimeoutCause(g.ctx, limit, fmt.Errorf("the service did not answer within %s", limit))
	answer, err := g.next.RoundTrip(r.WithContext(ctx))
	switch {
	case err == nil:
		answer.Body = &answerBody{ReadCloser: answer.Body, ctx: ctx, stop: stop, bytes: most, elements: answerElements}
		if answer.StatusCode/100 != 2 {
			g.explain(answer)
		}
		return answer, nil
	case g.ctx.Err() != nil: // the library would repeat it after an error
		answer, err = &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Request: r}, nil
		refuse(answer, g.ctx.Err().Error())
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	stop()
	return answer, err
}

// explain gives a refusal without the service's document, such as a proxy's page, one of its own.
func (g *guard) explain(answer *http.Response) {
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
	refuse(answer, message)
}

// refuse makes an answer's document one with this message.
func refuse(answer *http.Response, message string) {
	var text bytes.Buffer
	_ = xml.EscapeText(&text, []byte(message))
	answer.Body = io.NopCloser(bytes.NewReader(fmt.Appendf(nil, "<Error><Message>%s</Message></Error>", text.Bytes())))
}

// noRedirect follows none: the signature and the session's token in the headers are for the
// service that the user named.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// answerBody ends with an error when its time is over or it is larger than an answer may be.
type answerBody struct {
	io.ReadCloser
	ctx             context.Context
	stop            func()
	bytes, elements int64 // that may follow
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
