//go:build !race

// Under the race detector reading the bodies takes many times as long. TestOverload and TestPlaces send at the
// same time there.

package kserve

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// What 100 callers send at once that is no request takes at most 200 MB, whatever they send.
func TestMemoryOfBadBodies(t *testing.T) {
	m := picture()
	most := int(m.MostBody())
	fill := func(head, unit, tail string) func() io.Reader { // as large as a body may be
		n := (most - len(head) - len(tail)) / len(unit)
		return func() io.Reader {
			return io.MultiReader(strings.NewReader(head), io.LimitReader(repeated(unit), int64(n*len(unit))), strings.NewReader(tail))
		}
	}
	idle := held()
	for name, body := range map[string]func() io.Reader{
		"inputs":     fill(`{"inputs":[`, "{},", "{}]}"),
		"parameters": fill(`{"parameters":{"a":0`, `,"a":0`, "}}"),
		"shape":      fill(`{"inputs":[{"shape":[`, "1,", "1]}]}"),
		"data":       fill(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3,64,64],"data":[`, "1,", "1]}]}"),
		"an id":      fill(`{"id":"`, "i", `"}`),
		"unknown":    fill(`{"x":[`, "[],", "[]]}"),
		"deep":       fill(``, "[", ``),
		"too large":  func() io.Reader { return io.LimitReader(repeated("{},"), int64(3*most)) },
	} {
		if !nightly && name != "data" && name != "inputs" && name != "too large" {
			continue // by day three kinds of body: numbers, objects and one that is refused for its size
		}
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			q := traffic.NewQueue(1, traffic.RefuseNew, traffic.NewAccount(1, time.Second, false))
			s := &Server{Model: m, Callers: &traffic.Callers{Queue: q}, Clock: time.Until, Places: 1024, Slowest: 5 * time.Minute}
			s.Start(l)
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/v2/models/one/infer", struct{ io.Reader }{body()})
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := http.DefaultTransport.RoundTrip(r)
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 400 && resp.StatusCode != 413 {
						t.Errorf("%d %s %v", resp.StatusCode, text, err)
					}
				})
			}
			all.Wait()
			if more := held() - idle; more > 200e6 {
				t.Errorf("100 bodies take %.0f MB", float64(more)/1e6)
			}
			s.Close(false)
		})
	}
}

// held is the most memory that the process has had from the system so far, bytes.
func held() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// repeated gives a text over and over.
func repeated(text string) io.Reader {
	return &again{block: strings.Repeat(text, 1+(32<<10)/len(text))}
}

type again struct {
	block string
	at    int
}

// Read implements io.Reader.
func (r *again) Read(b []byte) (int, error) {
	n := copy(b, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}
