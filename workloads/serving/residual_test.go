package serving

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// methods are ways to compute, make and move a batch of the residual network.
var methods = [][]string{
	{"max_batch=5"}, {"max_batch=1"}, {"max_batch=3", "preprocess=device", "source=33"}, {"max_batch=6", "pad=on", "split=best", "preprocess=device"},
	{"max_batch=5", "pad=on", "layout=nchw", "bn=apart"}, {"max_batch=3", "impl=im2col", "bn=fused", "streams=shared"}, {"max_batch=3", "impl=direct", "streams=new", "depth=3"},
	{"max_batch=4", "precision=tf32"}, {"max_batch=4", "precision=bf16"}, {"max_batch=4", "precision=fp16", "pinned=off"},
	{"max_batch=4", "precision=fp16"}, {"max_batch=3", "precision=tf32", "preprocess=device", "layout=nchw", "impl=im2col"},
	{"max_batch=6", "graph=on", "pad=on", "preprocess=device"}, {"max_batch=3", "autotune=on"}, {"max_batch=3", "autotune=on", "graph=on", "pad=on", "layout=nchw", "precision=bf16"},
	{"max_batch=3", "warm=off", "async_copy=off", "item_reads=3"},
	{"max_batch=2", "source=66", "image=65", "width=3", "blocks=1", "classes=3", "preprocess=device"},
}

func TestResidual(t *testing.T) {
	for _, set := range append(methods, []string{"max_batch=3", "threads=1"}) {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			passes(t, openOn(t, workloadtest.Host(t, host.Options{}), "small", set...))
		})
	}
}

// A single logit that cancels has the rounding errors of its terms.
func TestCancellingLogitPasses(t *testing.T) {
	c := workloadtest.Config(t, New(), "small", "max_batch=1", "classes=1", "precision=bf16")
	c.Seed = 6
	s, err := open(context.Background(), workloadtest.Host(t, host.Options{}), c)
	if err != nil {
		t.Fatal(err)
	}
	passes(t, workloadtest.Closing(t, s))
}

// The library's products answer too.
func TestResidualByLibrary(t *testing.T) {
	d := workloadtest.Simulated(t, true, "cublas")
	for _, set := range [][]string{{"max_batch=3", "impl=im2col", "library=on"}, {"max_batch=3", "impl=im2col", "library=on", "layout=nchw", "precision=tf32"}} {
		passes(t, openOn(t, d, "small", set...))
	}
}

// An answer is told from that of any other image.
func TestAnswersDiffer(t *testing.T) {
	for _, precision := range []string{"fp32", "tf32", "bf16", "fp16"} {
		n := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=1", "precision="+precision).net.(*residual)
		for i, own := range n.alone {
			if n.isRight(make([]byte, n.answerBytes()), int64(i)) {
				t.Errorf("%s: zeros answer image %d", precision, i)
			}
			for k, other := range n.alone {
				text := make([]byte, 0, n.answerBytes())
				for _, v := range other {
					text = binary.NativeEndian.AppendUint32(text, math.Float32bits(v))
				}
				if right := n.isRight(text, int64(i)); right != (k == i) {
					t.Errorf("%s: the answer to image %d is %v for image %d, %g away of at most %g", precision, k, right, i, distance(own, other), n.limit[i])
				}
			}
		}
	}
}

// The check finds an image that the service confuses with another, and a value that is not a number.
func TestWrongLogits(t *testing.T) {
	s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4", "depth=1")
	n := s.net.(*residual)
	n.alone[2], n.alone[3] = n.alone[3], n.alone[2]
	for i := range 2 { // images 0 to 7
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.drainSlots(); err != nil || s.wrong != 2 {
		t.Errorf("%v, %d wrong answers, want 2", err, s.wrong)
	}
	s.wrong = 0
	for i := range n.alone[4] {
		n.alone[4][i] = float32(math.NaN())
	}
	workloadtest.Fails(t, s, "answer")
}

// A load of images is served to the last, and its requests have the least that one by itself must do.
func TestResidualServes(t *testing.T) {
	s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=8", "rate=300")
	q, err := s.Serve(context.Background(), load())
	if err != nil {
		t.Fatal(err)
	}
	if p := q.Processes[0]; p.Completed == 0 || p.Scheduled != p.Completed {
		t.Errorf("%+v", p)
	}
	alone, known := s.Alone()
	if h2d, forward, d2h := alone[stH2D].Minimum, alone[stForward].Minimum, alone[stD2H].Minimum; h2d.BytesRead != 4*3*16*16 || forward.Flops != 2*809280 ||
		forward.BytesRead != 4*(19954+10752) || d2h.BytesRead != 4*10 || known != 0 {
		t.Errorf("a request alone: %+v, %+v, %+v, %g s", h2d, forward, d2h, known)
	}
}

// What is copied for a batch of 32 of ResNet-18: bytes, or float32 pixels that the host prepared.
func TestCopies(t *testing.T) {
	for preprocess, want := range map[string]int64{resnet.OnDevice: 6291456, resnet.OnHost: 19267584} {
		if got := 32 * requestBytes(resnet.Options{Shape: resnet.RxVision(), Preprocess: preprocess}); got != want {
			t.Errorf("preprocess=%s: %d bytes, want %d", preprocess, got, want)
		}
	}
}

// The roofline bound is the network's, in its precision.
func TestFloors(t *testing.T) {
	d := workloadtest.Host(t, host.Options{})
	for precision, flops := range map[string]int64{"fp32": 2 * 4 * 809280, "bf16": 2 * 4 * 809280} {
		s := openOn(t, d, "small", "max_batch=4", "precision="+precision, "preprocess=device")
		got := gpuprof.Cost{}
		for _, st := range s.Stages() {
			switch st.Name {
			case "forward":
				got = st.Minimum
			case loop.H2D:
				if st.Minimum.BytesRead != 4*3*32*32 {
					t.Errorf("%s: %d bytes copied", precision, st.Minimum.BytesRead)
				}
			}
			if st.Name == "prepare" && (st.Kind != gpuprof.DeviceStage || st.Minimum.BytesRead == 0 || len(st.Parts) != 1) {
				t.Errorf("%+v", st)
			}
		}
		if got.Flops != flops || (got.BF16 == flops) != (precision == "bf16" || flops == 0) || got.BytesRead == 0 {
			t.Errorf("%s: %+v", precision, got)
		}
	}
}

// What cannot be, or would change nothing, is refused by name; what does not fit memory
// before anything is allocated.
func TestResidualRefusals(t *testing.T) {
	for set, words := range map[string]string{
		"tau=0.02":                            "tau=0.02 with network=residual",
		"network=synthetic,impl=direct":       "impl=direct with network=synthetic",
		"network=synthetic,width=9":           "width=9 with network=synthetic",
		"library=on":                          "library=on with impl=implicit",
		"impl=cudnn":                          "cuDNN needs an NVIDIA GPU",
		"impl=im2col,library=on":              "cuBLAS was not found",
		"blocks=2-x":                          "no list of up to 6",
		"blocks=1-1-1-1-1-1-1":                "no list of up to 6",
		"image=0":                             "outside 1 to 1024",
		"threads=2":                           "no CPU threads to limit",
		"network=synthetic,threads=1":         "threads=1 with network=synthetic",
		"precision=int8":                      "fp32",
		"image=1024,width=512,max_batch=1024": "more than 32 bits count",
		"autotune=on,impl=direct":             "autotune=on with impl=direct",
		"autotune=on,warm=off":                "autotune=on with warm=off",
		"autotune=on,library=on":              "library=on with impl=implicit",
	} {
		s := gpuprof.Settings{}
		for _, kv := range strings.Split(set, ",") {
			k, v, _ := strings.Cut(kv, "=")
			s[k] = v
		}
		knobs, err := workloads.Resolve(New(), "small", s)
		if err == nil {
			err = New().Refuse(device.Info{Kind: "host"}, knobs)
		}
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want a usage error with %q", set, err, words)
		}
	}
	for _, preset := range []string{"small", "cifar", "rxvision", "synthetic"} {
		knobs, err := workloads.Resolve(New(), preset, gpuprof.Settings{"alpha": "0.00005"}) // the default, typed
		if err == nil {
			err = New().Refuse(device.Info{Kind: "host"}, knobs)
		}
		if err != nil {
			t.Errorf("%s: %v", preset, err)
		}
	}
	graphed := func(s gpuprof.Settings) gpuprof.Settings {
		s["graph"], s["pad"], s["streams"] = "on", "on", "new"
		return s
	}
	for _, c := range []struct {
		libraries, words string
		set              gpuprof.Settings
	}{
		{"cublas", "graph=on with streams=new and impl=im2col: cuBLAS", graphed(gpuprof.Settings{"impl": "im2col"})},
		{"cublas", "graph=on with streams=new and impl=auto: cuBLAS", graphed(gpuprof.Settings{"autotune": "on"})},
		{"cublas cudnn", "graph=on with streams=new and impl=auto: cuDNN", graphed(gpuprof.Settings{})},
		{"cudnn", "graph=on with streams=new and impl=cudnn: cuDNN", graphed(gpuprof.Settings{"impl": "cudnn"})},
		{"cudnn", "graph=on with streams=new and impl=auto: cuDNN", graphed(gpuprof.Settings{"autotune": "on"})},
		{"cublas", "cuDNN was not found or does not start", gpuprof.Settings{"impl": "cudnn"}},
		{"cudnn", "library=off with impl=cudnn", gpuprof.Settings{"impl": "cudnn", "library": "off"}},
		{"cudnn", "autotune=on with impl=cudnn", gpuprof.Settings{"impl": "cudnn", "autotune": "on"}},
		{"", "", graphed(gpuprof.Settings{})},
		{"cudnn", "", graphed(gpuprof.Settings{"library": "off"})},
		{"cudnn", "", gpuprof.Settings{"impl": "cudnn"}},
	} {
		info := device.Info{Kind: "cuda", Facts: map[string]string{}}
		for _, name := range strings.Fields(c.libraries) {
			info.Facts[name] = "12"
		}
		knobs, err := workloads.Resolve(New(), "small", c.set)
		if err == nil {
			err = New().Refuse(info, knobs)
		}
		if c.words == "" && err != nil || c.words != "" && (!errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%v with %q: %v, want %q", c.set, c.libraries, err, c.words)
		}
	}
	d := tight{workloadtest.Host(t, host.Options{})}
	c := workloadtest.Config(t, New(), "small")
	workloadtest.Refused(t, d, gpuprof.ErrMemory, []string{"max_batch=32", "depth=2"}, func() error {
		_, err := New().Open(context.Background(), d, c)
		return err
	})
}

// tight is the host device with hardly any memory.
type tight struct{ *host.Device }

func (d tight) Memory() device.Memory {
	m := d.Device.Memory()
	m.Available = 1 << 20
	return m
}
