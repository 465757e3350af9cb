package kserve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
	"github.com/gpuprof/gpuprof/workloads/testkit/kservetest"
)

// Minutes of a service that is asked too much, with failing batches, callers that are slow,
// leave, or send nonsense, under each rule of overload: each request ends once, in the books
// as for its caller, and memory stays as it is. The time is virtual.
func TestSoak(t *testing.T) {
	for _, rule := range []traffic.Overload{traffic.RefuseNew, traffic.RefuseOld, traffic.Deadline} {
		t.Run(string(rule), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { soak(t, rule) })
		})
	}
}

func soak(t *testing.T, rule traffic.Overload) {
	const first, all = 500, 2500
	r := setup{
		queue: 4, places: 32, rule: rule, pause: ms,
		batcher: traffic.Batcher{MaxBatch: 4, MaxDelay: 5 * ms, SLO: 60 * ms, Alone: 25 * ms},
		takes:   func(b int) time.Duration { return 20*ms + time.Duration(b)*5*ms },
		fails: func(n int) error {
			if n%13 == 5 {
				return &traffic.BatchError{Err: errLost}
			}
			return nil
		},
	}.start(t)
	most := int64(first)
	s := &kservetest.Soak{
		Client: r.client, Dial: func() (net.Conn, error) { return r.pipes.dial(context.Background(), "", "") },
		URL: "http://service", Path: "/v2/models/one/infer", Body: func(i int64) string { return asks(float64(i)) },
		Right: func(i int64, answer string) bool {
			return answer == fmt.Sprintf(`{"model_name":"one","model_version":"1","id":"%d","outputs":[{"name":"y","datatype":"FP32","shape":[1,1],"data":[%d]}]}`, i, 1-2*i)
		},
		Callers: 16, Pause: 7 * ms, Leaves: 30 * ms, More: func(i int64) bool { return i <= most },
	}
	s.Run(t)
	synctest.Wait()
	objects, _ := kservetest.Live()
	most = all
	got := s.Run(t)
	synctest.Wait()
	// A request that leaves anything behind leaves 2,000 of it.
	if after, _ := kservetest.Live(); after > objects+500 {
		t.Errorf("%d objects live after %d requests, %d after %d", objects, first, after, all)
	}
	r.stop()
	served, err := r.books.Served(0)
	if err != nil {
		t.Fatal(err)
	}
	counts := r.server.Counts()
	for what, n := range map[string]int64{"completed": served.Completed, "refused": served.Refused, "failed": served.Failed, "left": counts.Gone, "wrong": counts.Rejected["400"], "slow": counts.Rejected["408"], "broken": counts.Rejected[ClosedEarly]} {
		if n == 0 {
			t.Errorf("none was %s: nothing was planted", what)
		}
	}
	sum := served.Completed + served.Refused + served.Failed
	if answered := got.Answered(); sum < answered || sum > answered+got.Left || served.Open != 0 {
		t.Errorf("the books have %d ends and %d open, callers %d answers and %d left", sum, served.Open, answered, got.Left)
	}
	// The callers' counts equal the service's, except for callers that left.
	for status, n := range map[int]int64{http.StatusOK: served.Completed, http.StatusInternalServerError: served.Failed, http.StatusServiceUnavailable: served.Refused - served.Expired, http.StatusGatewayTimeout: served.Expired} {
		if told := got.Status[status]; told > n || told < n-got.Left {
			t.Errorf("%d were told %d, and the books have %d", told, status, n)
		}
	}
	if n := counts.Rejected["400"]; n != got.Wrong {
		t.Errorf("%d wrong requests were rejected, %d were sent", n, got.Wrong)
	}
	if n := counts.Rejected["408"] + counts.Rejected[ClosedEarly]; n != got.Half {
		t.Errorf("%d halves were rejected, %d were sent", n, got.Half)
	}
}
