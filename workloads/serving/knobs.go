package serving

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// Values of knobs that the code compares with.
const (
	auto = "auto"

	arriveGamma  = "gamma"
	arriveTrace  = "trace:"
	arriveClosed = "closed:"
	arriveHTTP   = "http:"

	splitBest = "best"
	never     = "never"

	streamsShared = "shared"
	streamsOwn    = "own"
	streamsNew    = "new"
)

const (
	mostBatch   = 1024
	mostQueue   = 1 << 20
	mostClients = 1 << 16
	mostDepth   = 64
	mostReads   = 4096
	usualLoad   = 0.7
	longestS    = 60 // largest tau, alpha and max_delay, in seconds
)

// settings are the knobs of a run. Load and Rate are 0 for auto.
type settings struct {
	resnet.Options
	BlocksText string           `knob:"blocks"`
	Network    string           `knob:"network"`
	Arrivals   string           `knob:"arrivals"`
	Load       float64          `knob:"load"`
	Rate       float64          `knob:"rate"`
	CV         float64          `knob:"cv"`
	SLO        float64          `knob:"slo"`
	Tau        float64          `knob:"tau"`
	Alpha      float64          `knob:"alpha"`
	MaxDelay   float64          `knob:"max_delay"`
	BestSplit  bool             `knob:"split=best"`
	Pad        bool             `knob:"pad"`
	Queue      int              `knob:"queue"`
	Overload   traffic.Overload `knob:"overload"`
	Streams    string           `knob:"streams"`
	Pinned     bool             `knob:"pinned"`
	Graph      bool             `knob:"graph"`
	Warm       bool             `knob:"warm"`
	Autotune   bool             `knob:"autotune"`
	Threads    int              `knob:"threads"`
}

func readSettings(set gpuprof.Settings, seed uint64) (k settings, err error) {
	k = workloads.Read[settings](set)
	k.Seed = seed
	k.Blocks, err = resnet.ParseBlocks(k.BlocksText)
	return k, err
}

// Knobs implements workloads.Workload.
func (Workload) Knobs() []workloads.Knob {
	return append([]workloads.Knob{
		arrivalsKnob(),
		loadKnob(),
		rateKnob(),
		numberKnob("cv", "coefficient of variation of the gaps between arrivals: 0 is uniform, 1 Poisson, 3 bursty", "1", 0, 20).AsModel(),
		secondsKnob("slo", "seconds within which an answer is of use, for the goodput and for overload=deadline", "0.1", 1e-6, 3600).AsModel(),
		tauKnob(),
		alphaKnob(),
		batchKnob(),
		delayKnob(),
		splitKnob(),
		padKnob(),
		queueKnob(),
		overloadKnob(),
		depthKnob(),
		streamsKnob(),
		loop.PinnedKnob("host memory of the copies: on (pinned) or off (pageable)", "on", "off"),
		loop.AsyncKnob("off makes the host thread wait for a batch's copy and for its answers, as .to(device) and .cpu() do"),
		loop.SyncKnob("when the host thread waits for the device beyond that: never, after every batch (step), or after every K batches", never),
		loop.PackedReads("how answers are read: packed (the one copy of a batch) or N four-byte reads beside it, each followed by a synchronization, as .item() does", 0, mostReads),
		graphKnob(),
		warmKnob(),
	}, networkKnobs()...)
}

// numberKnob returns a knob for a share or a rate between lo and hi.
func numberKnob(name, doc, def string, lo, hi float64) workloads.Knob {
	return numberOf("a number", "", name, doc, def, lo, hi)
}

func secondsKnob(name, doc, def string, lo, hi float64) workloads.Knob {
	return numberOf("a number of seconds", " s", name, doc, def, lo, hi)
}

func plainText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func numberOf(what, unit, name, doc, def string, lo, hi float64) workloads.Knob {
	span := plainText(lo) + " to " + plainText(hi)
	return workloads.Knob{Name: name, Doc: doc, Default: def, Accept: what + " from " + span, Parse: func(s string) (string, error) {
		v, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil || v != v:
			return "", fmt.Errorf("is not %s", what)
		case v < lo || v > hi:
			return "", fmt.Errorf("is outside %s%s", span, unit)
		}
		return plainText(v), nil // the spelling of the defaults: 0.00005, not 5e-05
	}}
}

func arrivalsKnob() workloads.Knob {
	return workloads.Knob{
		Name: "arrivals", Doc: "callers: gamma (a schedule drawn from the seed), trace:FILE (seconds since the start, one per line), closed:N (N callers, each waiting for its answer), http:ADDRESS:PORT (programs that send requests over HTTP)",
		Default: arriveGamma, Values: []string{arriveGamma}, Accept: "trace:FILE, closed:N or http:ADDRESS:PORT", NamesFile: true, Model: true,
		Parse: func(s string) (string, error) {
			if file, is := strings.CutPrefix(s, arriveTrace); is {
				if st, err := os.Stat(file); err != nil || st.IsDir() {
					return "", fmt.Errorf("names no file that can be read")
				}
				return s, nil
			}
			if address, is := strings.CutPrefix(s, arriveHTTP); is {
				return httpText(address)
			}
			clients, is := strings.CutPrefix(s, arriveClosed)
			if n, err := strconv.Atoi(clients); is && err == nil && n >= 1 && n <= mostClients {
				return arriveClosed + strconv.Itoa(n), nil
			}
			return "", fmt.Errorf("is neither gamma (which is Poisson with cv=1) nor trace:FILE nor http:ADDRESS:PORT nor closed:N with N from 1 to %d", mostClients)
		},
	}
}

// loopback is the default address of the service: other machines cannot reach it.
const loopback = "127.0.0.1"

// httpText returns the canonical spelling of an address to listen at. Port 0 means any free port.
func httpText(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil { // the text is a port without a host
		host, port = "", address
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return "", fmt.Errorf("names no address of this machine and a port from 0 to 65535, as http:127.0.0.1:8000 does")
	}
	if host == "" {
		host = loopback
	}
	return arriveHTTP + net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func tauKnob() workloads.Knob {
	return secondsKnob("tau", "seconds that a batch takes whatever its size of the synthetic network", "0.001", 0, longestS).AsModel()
}

func alphaKnob() workloads.Knob {
	return secondsKnob("alpha", "seconds that a batch takes per request of the synthetic network", "0.00005", 0, longestS).AsModel()
}

// orAuto adds the value auto to the knob of a number and makes it the default; with auto the workload chooses the
// number.
func orAuto(k workloads.Knob) workloads.Knob {
	k.Default, k.Values = auto, []string{auto}
	return k.AsModel()
}

func loadKnob() workloads.Knob {
	return orAuto(numberKnob("load", "rate as a share of the throughput that this run measures at saturation; auto is 0.7, or what rate says", "", 0.001, 10))
}

func rateKnob() workloads.Knob {
	return orAuto(numberKnob("rate", "requests per second; auto goes by load", "", 1e-3, 1e6))
}

// batchStages returns the stages whose time depends on how batches are made.
func batchStages() []string {
	return []string{stPreprocess.name(), stBatch.name(), loop.H2D, stPrepare.name(), stForward.name(), loop.D2H, stAnswer.name(), loop.Backpressure}
}

func batchKnob() workloads.Knob {
	k := workloads.IntKnob("max_batch", "requests per batch, at most", 32, 1, mostBatch)
	k.Acts, k.Try = []string{workloads.AllStages}, []string{"1", "8", "32", "128"}
	k.PyTorch = map[string]string{workloads.AnyValue: "batch = queue[:%s]  # the oldest requests that wait"}
	return k
}

func delayKnob() workloads.Knob {
	k := secondsKnob("max_delay", "seconds that a batch waits to fill, counted from when its oldest request was due; 0 takes what waits", "0", 0, longestS)
	// The delay acts under load alone, where no stage is timed.
	k.Try, k.TryUnderLoad, k.Acts = []string{}, []string{"0", "0.001", "0.01", "0.1"}, batchStages()
	k.PyTorch = map[string]string{"0": "# run what waits, without a timeout", workloads.AnyValue: "timeout = %s  # seconds for a batch to fill"}
	return k
}

func splitKnob() workloads.Knob {
	k := workloads.Choice("split", "best cuts the waiting requests into batches of 1, 2, 4 … max_batch, by the time of each size measured at the start", "off", splitBest)
	k.Acts = []string{workloads.AllStages}
	k.PyTorch = map[string]string{"off": "# one batch of all that wait", splitBest: "sizes = best_cut(len(queue))  # by the measured time of each batch size"}
	return k
}

func padKnob() workloads.Knob {
	k := workloads.Choice("pad", "on fills a batch to 1, 2, 4 … max_batch requests, so that only these sizes run", "off", "on")
	k.Acts = []string{workloads.AllStages}
	k.PyTorch = map[string]string{"off": "# batches of any size", "on": "batch = F.pad(batch, (0, 0, 0, size - len(batch)))  # to the next power of two"}
	return k
}

func queueKnob() workloads.Knob {
	k := workloads.IntKnob("queue", "requests that can wait; 0 is any number", 1024, 0, mostQueue)
	k.Try, k.Acts = []string{}, batchStages()
	k.PyTorch = map[string]string{workloads.AnyValue: "queue = asyncio.Queue(maxsize=%s)"}
	return k
}

func overloadKnob() workloads.Knob {
	k := workloads.Choice("overload", "a full queue refuses the new request or the oldest; deadline refuses what cannot be answered within slo; block makes the sender wait, which hides latency",
		string(traffic.RefuseNew), string(traffic.RefuseOld), string(traffic.Deadline), string(traffic.Block))
	k.Try, k.Acts = []string{}, batchStages()
	k.Ungated = map[string]string{string(traffic.Block): "the sender waits for room in the queue, which hides how long its requests should have taken"}
	k.PyTorch = map[string]string{workloads.AnyValue: "# rule for a full queue: %s"}
	return k
}

func depthKnob() workloads.Knob {
	k := workloads.IntKnob("depth", "batches in flight to and on the device", 2, 1, mostDepth)
	k.Try, k.Acts = []string{"1", "2"}, []string{workloads.AllStages}
	k.PyTorch = map[string]string{workloads.AnyValue: "# batches in flight: %s"}
	return k
}

func streamsKnob() workloads.Knob {
	k := workloads.Choice("streams", "own runs the network on a stream beside the copies, ordered by events; shared has one stream for all; new makes a stream for every batch", streamsOwn, streamsShared, streamsNew)
	k.Acts = []string{workloads.AllStages}
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyBeside, To: streamsOwn, When: gpuprof.Settings{"streams": streamsShared}}}
	k.Advice = map[string]string{streamsOwn: "run the network on one torch.cuda.Stream that is made once, and order it with the copies by events"}
	k.PyTorch = map[string]string{
		streamsOwn:    "with torch.cuda.stream(compute): out = model(batch)  # one stream, made once",
		streamsShared: "out = model(batch)  # on the current stream",
		streamsNew:    "with torch.cuda.stream(torch.cuda.Stream()): out = model(batch)  # a stream for every batch",
	}
	return k
}

func graphKnob() workloads.Knob {
	k := loop.GraphKnob("launch the network's kernels one by one, or capture them once for every size of a batch and replay; needs pad=on, which bounds the sizes")
	k.Answers[0].When = gpuprof.Settings{"graph": "off", "pad": "on"}
	// A graph with calls of a vendor library is replayed as a graph only on the stream for which it was captured. So
	// graph=on is no advice where every batch has a new stream.
	k.Answers[0].Unless = gpuprof.Settings{"streams": streamsNew}
	return k
}

// warmKnob returns the knob warm. It acts before the steps and the load, so no search tries its values.
func warmKnob() workloads.Knob {
	k := workloads.Choice("warm", "on runs the network before the first request; with off the first request waits for kernels and libraries to load. Its latency is reported apart", "on", "off")
	k.Try, k.Acts = []string{}, []string{stForward.name()}
	k.PyTorch = map[string]string{"on": "model(example)  # some times, before the first request", "off": "# nothing runs before the first request"}
	return k
}

// address returns the address at which the service listens, or false if the program itself makes the requests.
func (k settings) address() (string, bool) { return strings.CutPrefix(k.Arrivals, arriveHTTP) }

// traceFile returns the file that holds the arrival times, or false if the settings name no file.
func (k settings) traceFile() (string, bool) { return strings.CutPrefix(k.Arrivals, arriveTrace) }

// countClients returns the number of clients in a closed loop, or 0 if requests follow a schedule.
func (k settings) countClients() int {
	n, closed := strings.CutPrefix(k.Arrivals, arriveClosed)
	if !closed {
		return 0
	}
	clients, _ := strconv.Atoi(n)
	return clients
}

// Refuse implements workloads.Workload. It refuses combinations of settings with which no service can run.
func (Workload) Refuse(info device.Info, set gpuprof.Settings) error {
	k, err := readSettings(set, 0)
	if err == nil {
		err = cmp.Or(refuseLoad(k), refuseNetwork(info, k, set))
	}
	if err == nil {
		err = refuseArrivals(k)
	}
	return err
}

func refuseLoad(k settings) error {
	open := k.Arrivals == arriveGamma
	clients := k.countClients()
	_, outside := k.address()
	switch {
	case k.Load > 0 && k.Rate > 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting load=%s and rate=%s: both say how many requests come", plainText(k.Load), plainText(k.Rate)).WithFix("give one of them")
	case !open && k.Load+k.Rate > 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting arrivals=%s with load or rate: these arrivals have a rate of their own", k.Arrivals).WithFix("leave load and rate at auto")
	case clients > 0 && (k.Overload != traffic.RefuseNew || k.Queue > 0 && k.Queue < clients):
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting arrivals=%s with queue=%d and overload=%s: callers that wait for answers are not refused", k.Arrivals, k.Queue, k.Overload).
			WithFix("leave overload at refuse-new, and give the queue a place for every caller")
	case outside && k.Queue == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting arrivals=%s with queue=0: what callers from outside send has to be bounded", k.Arrivals).WithFix("give --set queue=1024")
	case outside && k.Overload == traffic.Block:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting arrivals=%s with overload=block: callers from outside cannot be made to wait", k.Arrivals).WithFix("use overload=refuse-new, refuse-old or deadline")
	case k.Queue > 0 && k.Queue < k.MaxBatch && k.MaxDelay > 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting queue=%d with max_batch=%d and max_delay=%s: the queue is full before a batch is, so that every batch waits its whole delay", k.Queue, k.MaxBatch, plainText(k.MaxDelay)).
			WithFix("give the queue a place for every request of a batch, or leave max_delay at 0")
	case k.Load >= 1 && k.Queue == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting load=%s without a bound on the queue: it would grow as long as the run lasts", plainText(k.Load)).WithFix("give --set queue=1024, or a load below 1")
	case k.Graph && !k.Pad:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting graph=on with pad=off: a graph holds one size of batch, and batches have any").WithFix("use pad=on too, or graph=off")
	}
	return nil
}
