package kserve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// The paths of the protocol, and an answer as JSON and as a binary tensor.
func TestProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{}.start(t)
		defer r.stop()
		for path, want := range map[string]string{
			"/v2":                  `{"extensions":["binary_tensor_data"],"name":"gpuprof","version":"1"}`,
			"/v2/health/live":      `{"live":true}`,
			"/v2/health/ready":     `{"ready":true}`,
			"/v2/models/one/ready": `{"name":"one","ready":true}`,

			"/v2/models/one/versions/1/ready": `{"name":"one","ready":true}`,
			"/v2/models/one": `{"name":"one","versions":["1"],"platform":"gpuprof","inputs":[{"name":"x","datatype":"FP32","shape":[1,1]}],` +
				`"outputs":[{"name":"y","datatype":"FP32","shape":[1,1]}]}`,
		} {
			if got := r.do("GET", path, ""); got.status != http.StatusOK || got.body != want || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %+v", path, got)
			}
		}
		if status := r.infer(context.Background(), 0.25); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		head := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"parameters":{"binary_data_size":4}}],"parameters":{"binary_data_output":true}}`
		got := r.do("POST", "/v2/models/one/versions/1/infer", head+"\x00\x00\x80\x3e", headerLength, fmt.Sprint(len(head)))
		want := `{"model_name":"one","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,1],"parameters":{"binary_data_size":4}}]}`
		if got.body != want+"\x00\x00\x00\x3f" || got.header.Get(headerLength) != fmt.Sprint(len(want)) || got.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%+v", got)
		}
	})
}

// What callers do wrong: each gets its code and one sentence, is counted, and is no request.
func TestWrongRequests(t *testing.T) {
	const infer = "/v2/models/one/infer"
	in := func(fields string) string { return `{"inputs":[{` + fields + `}]}` }
	fine := `"name":"x","datatype":"FP32","shape":[1,1],`
	binary := in(fine + `"parameters":{"binary_data_size":4}`)
	for _, c := range []struct {
		name, path, body string
		header           []string
		status           int
		words            string
	}{
		{"model", "/v2/models/two/infer", asks(1), nil, 404, "no such model or path; send POST /v2/models/one/infer"},
		{"version", "/v2/models/one/versions/2/infer", asks(1), nil, 404, "no such model or path"},
		{"path", "/v3", "", nil, 404, "no such model or path"},
		{"nothing", infer, "", nil, 400, "its JSON is broken"},
		{"cut", infer, asks(1)[:30], nil, 400, "its JSON is broken: at byte 30"},
		{"more", infer, asks(1) + "{", nil, 400, "its JSON is broken"},
		{"kind", infer, `{"inputs":7}`, nil, 400, `"inputs" cannot be a number`},
		{"object", infer, `{"inputs":{}}`, nil, 400, `"inputs" cannot be an object`},
		{"whole", infer, `[]`, nil, 400, `the request cannot be an array`},
		{"fraction", infer, in(`"shape":[1.5]`), nil, 400, `"inputs.shape" cannot be 1.5`},
		{"no input", infer, `{}`, nil, 400, "it has 0 inputs; send the input x alone"},
		{"two inputs", infer, `{"inputs":[{},{}]}`, nil, 400, "it has 2 inputs"},
		{"name", infer, in(`"name":"z"`), nil, 400, `the model has no input "z"; send x`},
		{"type", infer, in(`"name":"x","datatype":"INT8"`), nil, 400, `the type of x is "INT8"; send FP32`},
		{"shape", infer, in(`"name":"x","datatype":"FP32","shape":[2,1]`), nil, 400, "the shape of x is [2,1]; send [1,1]"},
		{"rank", infer, in(`"name":"x","datatype":"FP32","shape":[1]`), nil, 400, "the shape of x is [1]"},
		{"no data", infer, in(fine[:len(fine)-1]), nil, 400, "x has no data"},
		{"length", infer, in(fine + `"data":[1,2]`), nil, 400, "x has 2 numbers; send 1"},
		{"no numbers", infer, in(fine + `"data":[]`), nil, 400, "x has 0 numbers"},
		{"text", infer, in(fine + `"data":["1"]`), nil, 400, "data of x holds"},
		{"null", infer, in(fine + `"data":null`), nil, 400, "send an array of numbers"},
		{"a number", infer, in(fine + `"data":1`), nil, 400, "send an array of numbers"},
		{"too large", infer, in(fine + `"data":[1e7]`), nil, 400, "number 0 of x is 1e+07; send numbers from -1e+06 to 1e+06"},
		{"huge", infer, in(fine + `"data":[1e999]`), nil, 400, "send numbers from"},
		{"deep", infer, in(fine + `"data":[[[[[[[[[1]]]]]]]]]`), nil, 400, "nested 9 deep"},
		{"nested", infer, in(fine + `"data":[[[1]]]`), nil, 400, "nested in another way than its shape [1,1]"},
		{"output", infer, strings.Replace(asks(1), "{", `{"outputs":[{"name":"q"}],`, 1), nil, 400, `the model has no output "q"; ask for y`},
		{"outputs", infer, strings.Replace(asks(1), "{", `{"outputs":[{"name":"y"},{"name":"y"}],`, 1), nil, 400, "it asks for 2 outputs"},
		{"flag", infer, strings.Replace(asks(1), "{", `{"outputs":[{"name":"y","parameters":{"binary_data":2}}],`, 1), nil, 400, "send true or false"},
		{"flag of all", infer, strings.Replace(asks(1), "{", `{"parameters":{"binary_data_output":2},`, 1), nil, 400, "send true or false"},
		{"classes", infer, strings.Replace(asks(1), "{", `{"outputs":[{"name":"y","parameters":{"classification":3}}],`, 1), nil, 400, `"classification" of a tensor is not supported`},
		{"shared memory", infer, in(fine + `"parameters":{"shared_memory_region":"a"}`), nil, 400, "not supported"},
		{"compressed", infer, asks(1), []string{"Content-Encoding", "gzip"}, 400, `the encoding "gzip"; send it as it is`},
		{"no length", infer, binary + "1234", nil, 400, "its JSON is broken"},
		{"binary without header", infer, binary, nil, 400, "send the header Inference-Header-Content-Length"},
		{"header", infer, binary + "1234", []string{headerLength, "x"}, 400, `Inference-Header-Content-Length is "x"`},
		{"header below", infer, binary + "1234", []string{headerLength, "-1"}, 400, "and the body has"},
		{"header with a sign", infer, binary + "1234", []string{headerLength, fmt.Sprintf("+%d", len(binary))}, 400, "and the body has"},
		{"header beyond", infer, binary, []string{headerLength, "9999"}, 400, "and the body has"},
		{"short tensor", infer, binary + "123", []string{headerLength, fmt.Sprint(len(binary))}, 400, "takes 4 bytes; binary_data_size is 4, and 3 bytes follow the JSON; send 4 bytes"},
		{"long tensor", infer, binary + "12345", []string{headerLength, fmt.Sprint(len(binary))}, 400, "5 bytes follow"},
		{"not a number", infer, binary + "\x00\x00\xc0\x7f", []string{headerLength, fmt.Sprint(len(binary))}, 400, "number 0 of x is NaN"},
		{"both", infer, in(fine + `"data":[1],"parameters":{"binary_data_size":4}`), []string{headerLength, fmt.Sprint(len(in(fine + `"data":[1],"parameters":{"binary_data_size":4}`)))}, 400, "x has data and binary_data_size"},
		{"bytes of nobody", infer, asks(1) + "12", []string{headerLength, fmt.Sprint(len(asks(1)))}, 400, "2 bytes follow the JSON, and no input takes them"},
		{"many inputs", infer, `{"inputs":[` + strings.Repeat("{},", 20000) + `{}]}`, nil, 400, "it has more than 16 inputs"},
		{"many outputs", infer, strings.Replace(asks(1), "{", `{"outputs":[`+strings.Repeat(`{"name":"y"},`, 40)+`{}],`, 1), nil, 400, "it asks for more than 16 outputs"},
		{"many dimensions", infer, in(`"name":"x","datatype":"FP32","shape":[` + strings.Repeat("1,", 5000) + `1]`), nil, 400, "the shape of x is [1,1,1,"},
		{"many parameters", infer, in(fine + `"parameters":{` + strings.Repeat(`"a":1,`, 20) + `"a":1}`), nil, 400, "a list of parameters is longer than 16"},
		{"a long parameter", infer, in(fine + `"parameters":{"a":"` + strings.Repeat("b", 2000) + `"}`), nil, 400, "a parameter is longer than 1024"},
		{"a long name", infer, in(`"name":"` + strings.Repeat("x", 6144) + `"`), nil, 400, "a name in it is longer than 6144"},
		{"a long id", infer, strings.Replace(asks(1), "{", `{"id":"`+strings.Repeat("i", 6144)+`",`, 1), nil, 400, "a name in it is longer than 6144"},
		{"another host", infer, asks(1), []string{"Host", "evil.example:80"}, 421, `host "evil.example": the service has another name; send it to the machine's IP address or name`},
		{"another site", infer, asks(1), []string{"Origin", "http://evil.example"}, 403, `the page "http://evil.example"`},
		{"a sandboxed page", infer, asks(1), []string{"Origin", "null"}, 403, `the page "null"`},
		{"large", infer, strings.Repeat(" ", 65601), nil, 413, "larger than 65600 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup{}.start(t)
				got := r.do("POST", c.path, c.body, c.header...)
				r.stop()
				if got.status != c.status || !strings.Contains(strings.ReplaceAll(got.body, `\"`, `"`), c.words) {
					t.Errorf("%+v, want %d with %q", got, c.status, c.words)
				}
				if n := r.server.Counts().Rejected[fmt.Sprint(c.status)]; n != 1 || r.callers.Sent() != 0 {
					t.Errorf("%d were rejected, and %d were requests", n, r.callers.Sent())
				}
			})
		})
	}
}

// Each rule of overload: a service of 100 ms per request and two places is asked ten times at
// once. What it cannot keep is told so, the rest is answered, and all are in the books.
func TestOverload(t *testing.T) {
	for _, c := range []struct {
		rule     traffic.Overload
		statuses map[int]int
	}{
		// Two in flight, of which the device runs one, and two that wait.
		{traffic.RefuseNew, map[int]int{200: 4, 503: 6}},
		{traffic.RefuseOld, map[int]int{200: 4, 503: 6}},
		// Answers after 100 and 200 ms; whoever waits cannot have one within 250 ms.
		{traffic.Deadline, map[int]int{200: 2, 503: 6, 504: 2}},
	} {
		t.Run(string(c.rule), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := setup{queue: 2, places: 10, rule: c.rule, takes: func(b int) time.Duration { return time.Duration(b) * 100 * ms }}
				s.batcher = traffic.Batcher{MaxBatch: 1, SLO: 150 * ms, Alone: 100 * ms}
				r := s.start(t)
				got := map[int]int{}
				var mu sync.Mutex
				var all sync.WaitGroup
				for i := range 10 {
					time.Sleep(ms) // one after the other, so that the places are taken in order
					all.Go(func() {
						resp := r.do("POST", "/v2/models/one/infer", asks(float64(i)))
						mu.Lock()
						defer mu.Unlock()
						got[resp.status]++
						if retry := resp.header.Get("Retry-After"); (resp.status == 503) != (retry == "1") {
							t.Errorf("%d with Retry-After %q", resp.status, retry)
						}
					})
				}
				all.Wait()
				r.stop()
				if fmt.Sprint(got) != fmt.Sprint(c.statuses) {
					t.Errorf("%v, want %v", got, c.statuses)
				}
			})
		})
	}
}

// More requests than places are refused while they are read, and are in the books.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{places: 1}.start(t)
		slow, body := context.Background(), newSlowBody(asks(1), time.Second)
		var first int
		var all sync.WaitGroup
		all.Go(func() { first = r.send(slow, "POST", "/v2/models/one/infer", body).status })
		time.Sleep(500 * ms)
		second := r.infer(context.Background(), 2)
		all.Wait()
		third := r.infer(context.Background(), 3) // the place is free again
		r.stop()
		if first != 200 || second != 503 || third != 200 || r.callers.Sent() != 3 {
			t.Errorf("%d, %d and %d, %d requests", first, second, third, r.callers.Sent())
		}
	})
}

// slowBody gives a text in two halves, a time apart.
type slowBody struct {
	parts []string
	pause time.Duration
}

func newSlowBody(text string, pause time.Duration) *slowBody {
	return &slowBody{[]string{text[:len(text)/2], text[len(text)/2:]}, pause}
}

func (b *slowBody) Read(into []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	if len(b.parts) == 1 {
		time.Sleep(b.pause)
	}
	n := copy(into, b.parts[0])
	b.parts = b.parts[1:]
	return n, nil
}

// A failed batch is the failure of its members alone; the next one is served.
func TestFailedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{fails: func(n int) error {
			if n == 1 {
				return &traffic.BatchError{Err: fmt.Errorf("planted")}
			}
			return nil
		}}.start(t)
		var got []int
		for i := range 3 {
			got = append(got, r.infer(context.Background(), float64(i)))
		}
		r.stop()
		served, err := r.books.Served(0)
		if !slices.Equal(got, []int{200, 500, 200}) || err != nil || served.Failed != 1 || served.FailedFor != "planted" {
			t.Errorf("%v, %v, %+v", got, err, served)
		}
	})
}

// A lost device ends the service: who waits is told, and is open in the books.
func TestLostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{fails: func(int) error { return errLost }}.start(t)
		got := r.do("POST", "/v2/models/one/infer", asks(1))
		if err := <-r.done; err != errLost { //nolint:errorlint // it is this one
			t.Errorf("%v", err)
		}
		r.ended()
		served, err := r.books.Served(0)
		if got.status != 500 || !strings.Contains(got.body, "the device failed, which ended the run") || err != nil || served.Open != 1 {
			t.Errorf("%+v, %v, %d open", got, err, served.Open)
		}
	})
}

// Ctrl-C ends the service: who waits is told to come again.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{takes: func(int) time.Duration { return time.Hour }}.start(t)
		var got reply
		var all sync.WaitGroup
		all.Go(func() { got = r.do("POST", "/v2/models/one/infer", asks(1)) })
		time.Sleep(time.Second)
		r.cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		all.Wait()
		r.ended()
		if got.status != 503 || !strings.Contains(got.body, "the run has ended") || got.header.Get("Retry-After") == "" {
			t.Errorf("%+v", got)
		}
	})
}

// A latency begins at the first byte of a request, on a kept connection too, and holds the
// time in which the rest came. What the caller sees is never less.
func TestFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{takes: func(int) time.Duration { return 20 * ms }}.start(t)
		c, err := r.pipes.dial(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		head := "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(asks(1))) + "\r\n\r\n"
		for _, pause := range []time.Duration{300 * ms, 0, 700 * ms} {
			time.Sleep(2 * time.Second) // between requests is no latency
			parts := []string{head[:1], head[1:50], head[50:] + asks(1)[:9]}
			for _, part := range parts {
				if _, err := io.WriteString(c, part); err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause)
			}
			if resp, err := r.raw(c, asks(1)[9:]); err != nil || resp.StatusCode != 200 {
				t.Errorf("%+v, %v", resp, err)
			}
		}
		_ = c.Close()
		r.stop()
		served, err := r.books.Served(0)
		// Three pauses each, and the batch; the service looks every 0.1 ms.
		want := (3*1000*ms + 3*20*ms).Seconds() / 3
		if err != nil || served.Latency.MeanS < want || served.Latency.MeanS > want+1e-3 || served.Late.MaxS < 2.1 || served.Late.MaxS > 2.101 {
			t.Errorf("%v: mean %g s, want %g; %g s to the queue at most", err, served.Latency.MeanS, want, served.Late.MaxS)
		}
	})
}

// The client's own percentiles are ours or more: of 400 requests, open loop, whose service is
// a batch of a fixed time. Beyond ours lies what the client waits for the service to look.
func TestClientSeesTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{queue: 1000, takes: func(b int) time.Duration { return 4*ms + time.Duration(b)*ms }}.start(t)
		const requests = 400
		theirs := make([]time.Duration, requests)
		var all sync.WaitGroup
		var fine atomic.Int64
		for i, at := range traffic.Draw(requests, 300, 1, 3) {
			all.Go(func() {
				time.Sleep(at)
				began := time.Now()
				if r.infer(context.Background(), float64(i)) == 200 {
					fine.Add(1)
				}
				theirs[i] = time.Since(began)
			})
		}
		all.Wait()
		r.stop()
		served, err := r.books.Served(0)
		if err != nil || fine.Load() != requests || served.Completed != requests {
			t.Fatalf("%v: %d answers, %d in the books", err, fine.Load(), served.Completed)
		}
		slices.Sort(theirs)
		ours := histogram(t, served)
		for _, share := range []float64{0.5, 0.9, 0.99} {
			their := theirs[int(share*requests)-1].Seconds()
			// A histogram's value is up to 0.1 % above.
			if our := ours.At(share); our > their*1.001 || our < their-0.2e-3 {
				t.Errorf("p%g: ours %g s, theirs %g s", 100*share, our, their)
			}
		}
	})
}
