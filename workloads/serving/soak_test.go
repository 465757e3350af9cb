package serving

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/kservetest"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// soakFor is the duration of TestSoakOutside, see scripts/check/soak_serving.sh.
var soakFor = flag.Duration("soak", 0, "soak the service behind HTTP for so long; 0 is a thousand requests")

// failing is a network some of whose batches fail.
type failing struct {
	network
	batches int
	leak    func() // after each; may be nil
}

func (f *failing) run(on device.Stream, slot, batch, stage int, p workloads.Probe) error {
	if f.leak != nil {
		f.leak()
	}
	if f.batches++; f.batches%101 == 7 {
		return errors.New("planted")
	}
	return f.network.run(on, slot, batch, stage, p)
}

// asked is a request for the synthetic network, told by its ID.
func asked(i int64) string {
	return fmt.Sprintf(`{"id":"%d","inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[%d]}]}`, i, i%1000)
}

// outsideService is a session that listens, and its address.
type outsideService struct {
	session *session
	address string
	cancel  context.CancelFunc
	done    sync.WaitGroup
	out     *loadtest.Requests
	err     error
}

// listens has a session serve requests from outside until stop is called.
func listens(t testing.TB, s *session) *outsideService {
	t.Helper()
	o := &outsideService{session: s}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	address := make(chan string, 1)
	l := load()
	l.MaxTime, l.Listening = 100*time.Hour, func(at string) { address <- at }
	o.done.Go(func() {
		o.out, o.err = s.Serve(ctx, l)
		close(address)
	})
	var listening bool
	if o.address, listening = <-address; !listening {
		t.Fatal(o.err)
	}
	return o
}

// stop ends the service as Ctrl-C does and returns what it counted.
func (o *outsideService) stop(t testing.TB) *loadtest.Served {
	t.Helper()
	o.cancel()
	o.done.Wait()
	if o.err != nil || o.out == nil {
		t.Fatal(o.err)
	}
	return &o.out.Processes[0]
}

// A service of the machine's own time behind a socket: failing batches, a full queue, callers
// that are slow, leave, or send nonsense. Each request ends once, in the books as for its
// caller, and memory stays as it is.
func TestSoakOutside(t *testing.T) {
	rules := []string{"refuse-new"}
	if *soakFor > 0 {
		rules = append(rules, "refuse-old", "deadline")
	}
	for _, rule := range rules {
		t.Run(rule, func(t *testing.T) { soakOutside(t, rule, *soakFor/time.Duration(len(rules)), faults{}) })
	}
}

// faults counts the faults that a soak has to find.
type faults struct {
	leak func()                                                         // after each batch
	on   func(http.RoundTripper, *http.Request) (*http.Response, error) // a request on its way
}

type tampering struct {
	http.RoundTripper
	with func(http.RoundTripper, *http.Request) (*http.Response, error)
}

func (r tampering) RoundTrip(q *http.Request) (*http.Response, error) {
	return r.with(r.RoundTripper, q)
}

// soakOutside soaks one rule; lasts 0 is a thousand requests.
func soakOutside(t testing.TB, rule string, lasts time.Duration, plant faults) {
	s := openOn(t, workloadtest.Host(t, host.Options{}), "synthetic", "arrivals=http:0", "tau=0.002", "alpha=0.0002", "max_batch=4", "queue=8", "slo=0.02", "overload="+rule)
	s.net, s.slowest = &failing{network: s.net, leak: plant.leak}, 2*time.Second
	service := listens(t, s)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	var sends http.RoundTripper = transport
	if plant.on != nil {
		sends = tampering{transport, plant.on}
	}
	const first, all = 250, 1000
	most, until := int64(first), time.Now().Add(lasts/10)
	soak := &kservetest.Soak{
		Client: &http.Client{Transport: sends}, Dial: func() (net.Conn, error) { return net.Dial("tcp", service.address) },
		URL: "http://" + service.address, Path: "/v2/models/synthetic/infer", Body: asked,
		Right: func(i int64, answer string) bool {
			return strings.Contains(answer, fmt.Sprintf(`"id":"%d",`, i)) && strings.Contains(answer, fmt.Sprintf(`"data":[%d]}`, 1-2*(i%1000)))
		},
		Callers: 32, Pause: time.Millisecond, Leaves: 5 * time.Millisecond,
		More: func(i int64) bool {
			if lasts > 0 {
				return time.Now().Before(until)
			}
			return i <= most
		},
	}
	early := soak.Run(t)
	transport.CloseIdleConnections()
	objects, bytes := kservetest.Live()
	most, until = all, until.Add(lasts-lasts/10)
	got := soak.Run(t)
	transport.CloseIdleConnections()
	after, afterBytes := kservetest.Live()
	// Connections come and go, some hundred objects each. A request that leaves anything behind
	// leaves one object at least, which a long soak tells from them.
	if room := uint64(20_000); after > objects+room || afterBytes > bytes+8<<20 {
		t.Errorf("%d objects of %d bytes live early, %d of %d at the end", objects, bytes, after, afterBytes)
	}
	served := service.stop(t)
	transport.CloseIdleConnections()
	t.Logf("%s: %d completed, %d refused (%d expired), %d failed; callers: %v, %d left, %d wrong, %d half; rejected %v, gone %d; objects %d -> %d, bytes %d -> %d; early %d",
		rule, served.Completed, served.Refused, served.Expired, served.Failed, got.Status, got.Left, got.Wrong, got.Half, served.Outside.Rejected, served.Outside.Gone, objects, after, bytes, afterBytes, early.Answered())
	sum := served.Completed + served.Refused + served.Failed
	if answered := got.Answered(); sum < answered || sum > answered+got.Left || served.Open != 0 || served.Scheduled != sum {
		t.Errorf("the books have %d ends and %d open, callers %d answers and %d left", sum, served.Open, answered, got.Left)
	}
	for status, n := range map[int]int64{http.StatusOK: served.Completed, http.StatusInternalServerError: served.Failed, http.StatusServiceUnavailable: served.Refused - served.Expired, http.StatusGatewayTimeout: served.Expired} {
		if told := got.Status[status]; told > n || told < n-got.Left {
			t.Errorf("%d were told %d, and the books have %d", told, status, n)
		}
	}
	if served.Failed == 0 || served.FailedFor != "planted" {
		t.Errorf("%d failed for %q", served.Failed, served.FailedFor)
	}
	if n := served.Outside.Rejected["400"]; n != got.Wrong {
		t.Errorf("%d wrong requests were rejected, %d were sent", n, got.Wrong)
	}
	if n := served.Outside.Rejected["408"] + served.Outside.Rejected["closed"]; n != got.Half {
		t.Errorf("%d halves were rejected, %d were sent", n, got.Half)
	}
}
