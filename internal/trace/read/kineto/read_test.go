package kineto

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func parse(t *testing.T, text string) *model.Trace {
	t.Helper()
	tr, err := Read(context.Background(), strings.NewReader(text), "t.json", 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tr
}

// list makes a document of events.
func list(events ...string) string {
	return `{"schemaVersion": 1, "traceEvents": [` + strings.Join(events, ",\n") + `]}`
}

// op makes an operator of 10 us at ts.
func op(name string, ts int) string {
	return `{"ph":"X","cat":"cpu_op","name":"` + name + fmt.Sprintf(`","pid":1,"tid":1,"ts":%d,"dur":10,"args":{"External id":%d}}`, ts, ts)
}

func show(tr *model.Trace) string {
	var s strings.Builder
	for _, h := range tr.Host {
		l := tr.Lanes[h.Lane]
		fmt.Fprintf(&s, "%s %q %d+%d on %d/%d", h.Kind, tr.Name(h.Name), h.Start, h.Dur(), l.Process, l.Thread)
		if l.Name != "" {
			fmt.Fprintf(&s, " (%s)", l.Name)
		}
		if h.Corr != 0 {
			fmt.Fprintf(&s, " corr %d", h.Corr)
		}
		if h.Seq != 0 {
			fmt.Fprintf(&s, " seq %d", h.Seq)
		}
		if h.Stack != 0 {
			fmt.Fprintf(&s, " stack %q", tr.Stacks[h.Stack-1])
		}
		s.WriteByte('\n')
	}
	for _, g := range tr.GPU {
		fmt.Fprintf(&s, "%s %q %d+%d device %d stream %d process %d", g.Kind, tr.Name(g.Name), g.Start, g.Dur(), tr.Devices[g.Device].ID, g.Stream, g.Process)
		for _, v := range []struct {
			name  string
			value int64
		}{{"corr", g.Corr}, {"ext", g.Ext}, {"bytes", g.Bytes}, {"blocks", g.Blocks}, {"threads", int64(g.Threads)}, {"dir", int64(g.Dir)}, {"memory", int64(g.Memory)}} {
			if v.value != 0 {
				fmt.Fprintf(&s, " %s %d", v.name, v.value)
			}
		}
		if g.Graph {
			s.WriteString(" graph")
		}
		if g.Launch >= 0 {
			fmt.Fprintf(&s, " by %q", tr.Name(tr.Host[g.Launch].Name))
		}
		s.WriteByte('\n')
	}
	for _, m := range tr.Memory {
		fmt.Fprintf(&s, "memory %d %+d of %d of %d device %d thread %d\n", m.At, m.Bytes, m.Allocated, m.Reserved, m.Device, tr.Lanes[m.Lane].Thread)
	}
	for _, w := range tr.Warnings {
		fmt.Fprintf(&s, "warning %s: %s\n", w.Code, w.Text)
	}
	return s.String()
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"operator", list(`{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 6, "ts": 1712195495519689.123, "dur": 63.813, "args": {"External id": 2049,"Sequence number": 18456, "Fwd thread id": 1, "Ev Idx": 0, "Input Dims": [[1, 2], []], "Concrete Inputs": ["", "1."], "Input type": ["float", "Scalar"]}}`),
			`operator "aten::mm" 1712195495519689123+63813 on 5/6 corr 2049 seq 18457 stack "␞[[1, 2], []]␟[\"float\", \"Scalar\"]␟␟[\"\", \"1.\"]"`},
		{"arguments of an operator without a model", list(`{"ph": "X", "cat": "cpu_op", "name": "aten::view", "pid": 5, "tid": 6, "ts": 10, "dur": 3, "args": {"Input Dims": [[1, 2], []]}}`),
			`operator "aten::view" 10000+3000 on 5/6`},
		{"old operator with a stack", list(`{"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 5, "tid": "6", "ts": 10, "dur": 3, "args": {"Device": 5, "External id": 2, "Call stack": "torch/f.py(3): g;model.py(4): h;main.py(5): <module>", "Sequence number": 0}}`),
			`operator "aten::mm" 10000+3000 on 5/6 corr 2 seq 1 stack "main.py(5): <module>;model.py(4): h;torch/f.py(3): g"`},
		{"empty stack", list(`{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 5, "tid": 6, "ts": 10, "dur": 3, "args": {"Call stack": ""}}`),
			`operator "a" 10000+3000 on 5/6`},
		{"a stack and arguments", list(`{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 5, "tid": 6, "ts": 10, "dur": 3, "args": {"Call stack": "b;a", "Input Dims": [[2]], "Input type": ["float"]}}`),
			`operator "aten::add" 10000+3000 on 5/6 stack "a;b␞[[2]]␟[\"float\"]␟␟"`},
		{"kinds of ranges", list(
			`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":1,"tid":1,"ts":1,"dur":100}`,
			`{"ph":"X","cat":"User Annotation","name":"ProfilerStep*","pid":1,"tid":1,"ts":2,"dur":90}`,
			`{"ph":"X","cat":"Operator","name":"ProfilerStep#6","pid":1,"tid":1,"ts":3,"dur":80}`,
			`{"ph":"X","cat":"Operator","name":"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__","pid":1,"tid":1,"ts":4,"dur":70}`,
			`{"ph":"X","cat":"operator","name":"Optimizer.step#SGD.step","pid":1,"tid":1,"ts":5,"dur":60}`,
			`{"ph":"X","cat":"OPERATOR","name":"Optimizer.zero_grad#SGD.zero_grad","pid":1,"tid":1,"ts":6,"dur":50}`,
			`{"ph":"X","cat":"user_annotation","name":"forward","pid":1,"tid":1,"ts":7,"dur":40}`,
			`{"ph":"X","cat":"python_function","name":"a.py(1): f","pid":1,"tid":1,"ts":8,"dur":30}`,
			`{"ph":"X","cat":"Overhead","name":"Activity Buffer Request","pid":-1,"tid":0,"ts":9,"dur":20}`),
			`step "ProfilerStep#5" 1000+100000 on 1/1
step "ProfilerStep*" 2000+90000 on 1/1
step "ProfilerStep#6" 3000+80000 on 1/1
annotation "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" 4000+70000 on 1/1
annotation "Optimizer.step#SGD.step" 5000+60000 on 1/1
annotation "Optimizer.zero_grad#SGD.zero_grad" 6000+50000 on 1/1
annotation "forward" 7000+40000 on 1/1
python "a.py(1): f" 8000+30000 on 1/1
overhead "Activity Buffer Request" 9000+20000 on -1/0`},
		{"kinds of calls", list(
			`{"ph":"X","cat":"cuda_runtime","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"cbid":1,"correlation":11,"External id":9}}`,
			`{"ph":"X","cat":"cuda_driver","name":"b","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":"12"}}`,
			`{"ph":"X","cat":"Runtime","name":"c","pid":1,"tid":1,"ts":3,"dur":1,"args":{"cbid":4}}`,
			`{"ph":"X","cat":"privateuse1_runtime","name":"d","pid":1,"tid":1,"ts":4,"dur":1,"args":{"correlation":14}}`,
			`{"ph":"X","cat":"hip_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":5,"dur":1,"args":{"correlation":15}}`),
			`api "a" 1000+1000 on 1/1 corr 11
api "b" 2000+1000 on 1/1 corr 12
api "c" 3000+1000 on 1/1
api "d" 4000+1000 on 1/1 corr 14
api "hipLaunchKernel" 5000+1000 on 1/1 corr 15`},
		{"kernel", list(
			`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":1,"ts":1,"dur":2,"args":{"correlation":77}}`,
			`{"ph":"X","cat":"kernel","name":"k<4>","pid":0,"tid":7,"ts":5.5,"dur":2.25,"args":{"External id":4,"queued":0,"device":2,"context":1,"stream":13,"correlation":77,"registers per thread":16,"blocks per SM":inf,"grid":[4, 3,2],"block":[ 128 , 2, 1 ],"graph id":0}}`),
			`api "cudaLaunchKernel" 1000+2000 on 9/1 corr 77
kernel "k<4>" 5500+2250 device 2 stream 13 process 9 corr 77 ext 4 blocks 24 threads 256 by "cudaLaunchKernel"`},
		{"kernel that names its stream in the thread", list(op("a", 1), `{"ph":"X","cat":"Kernel","name":"k","pid":3,"tid":"stream 7","ts":5,"dur":2,"args":{}}`),
			`operator "a" 1000+10000 on 1/1 corr 1
kernel "k" 5000+2000 device 3 stream 7 process -1`},
		{"graph kernels", list(op("a", 1),
			`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":2,"args":{"device":0,"stream":7,"correlation":5,"graph id":3,"graph node id":12}}`,
			`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":8,"dur":2,"args":{"device":0,"stream":7,"correlation":5,"graph node id":12,"graph id":0}}`),
			`operator "a" 1000+10000 on 1/1 corr 1
kernel "k" 5000+2000 device 0 stream 7 process -1 corr 5 graph
kernel "k" 8000+2000 device 0 stream 7 process -1 corr 5 graph`},
		{"copies", list(
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":1,"dur":1,"args":{"bytes":64}}`,
			`{"ph":"X","cat":"Memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":0,"tid":7,"ts":2,"dur":1}`,
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":7,"ts":3,"dur":1}`,
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP (Device -> Device)","pid":0,"tid":7,"ts":4,"dur":1}`,
			`{"ph":"X","cat":"gpu_memcpy","name":"CopyHostToDevice","pid":0,"tid":7,"ts":5,"dur":1}`,
			`{"ph":"X","cat":"gpu_memcpy","name":"MEMORY_COPY_DEVICE_TO_HOST","pid":0,"tid":7,"ts":6,"dur":1}`,
			`{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoH (Pinned -> Pageable)","pid":0,"tid":7,"ts":7,"dur":1}`,
			`{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":8,"dur":1,"args":{"bytes":128}}`),
			`memcpy "Memcpy HtoD (Pageable -> Device)" 1000+1000 device 0 stream 7 process -1 bytes 64 dir 1 memory 1
memcpy "Memcpy DtoH (Device -> Pinned)" 2000+1000 device 0 stream 7 process -1 dir 2 memory 2
memcpy "Memcpy DtoD (Device -> Device)" 3000+1000 device 0 stream 7 process -1 dir 3
memcpy "Memcpy PtoP (Device -> Device)" 4000+1000 device 0 stream 7 process -1 dir 4
memcpy "CopyHostToDevice" 5000+1000 device 0 stream 7 process -1 dir 1
memcpy "MEMORY_COPY_DEVICE_TO_HOST" 6000+1000 device 0 stream 7 process -1 dir 2
memcpy "Memcpy HtoH (Pinned -> Pageable)" 7000+1000 device 0 stream 7 process -1 dir 5 memory 1
memset "Memset (Device)" 8000+1000 device 0 stream 7 process -1 bytes 128`},
		{"what is no device work", list(op("a", 1),
			`{"ph":"X","cat":"gpu_user_annotation","name":"nccl:all_reduce","pid":0,"tid":7,"ts":1,"dur":1,"args":{"External id":3}}`,
			`{"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7}}`,
			`{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":9}`,
			`{"name":"Iteration Start: PyTorch Profiler","ph":"i","s":"g","pid":"Traces","tid":"Trace PyTorch Profiler","ts":0}`,
			`{"name":"Record Window End","ph":"i","s":"g","pid":"","tid":"","ts":9}`,
			`{"ph":"C","name":"counter","pid":1,"ts":9,"args":{"v":1}}`,
			`{"ph":"s","id":1,"pid":1,"tid":1,"ts":1,"cat":"fwdbwd","name":"fwdbwd"}`),
			`operator "a" 1000+10000 on 1/1 corr 1`},
		{"allocations", list(
			`{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":2,"ts":1.5,"args":{"Total Reserved":100,"Total Allocated":50,"Bytes":-8,"Addr":140,"Device Id":1,"Device Type":1}}`,
			`{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":2,"ts":2,"args":{"Device Type":0,"Device Id":-1,"Bytes":4}}`),
			`memory 1500 -8 of 50 of 100 device 1 thread 2
memory 2000 +4 of -1 of -1 device -1 thread 2`},
		{"instants", list(op("a", 1), `{"ph":"I","cat":"cpu_instant_event","name":"mark","pid":1,"tid":1,"ts":3}`, `{"ph":"i","name":"loose","pid":1,"tid":1,"ts":4}`),
			`operator "a" 1000+10000 on 1/1 corr 1
instant "mark" 3000+0 on 1/1
instant "loose" 4000+0 on 1/1`},
		{"begin and end", list(
			`{"ph":"B","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":1,"args":{"External id":5}}`,
			`{"ph":"B","cat":"cpu_op","name":"other thread","pid":1,"tid":2,"ts":2}`,
			`{"ph":"B","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":2}`,
			`{"ph":"B","cat":"mystery","name":"nothing","pid":1,"tid":1,"ts":2}`,
			`{"ph":"E","pid":1,"tid":1,"ts":3}`,
			`{"ph":"E","pid":1,"tid":1,"ts":4}`,
			`{"ph":"E","pid":1,"tid":1,"ts":9}`,
			`{"ph":"E","pid":1,"tid":2,"ts":7}`,
			`{"ph":"B","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"args":{"device":0,"stream":7}}`,
			`{"ph":"E","pid":0,"tid":7,"ts":12}`,
			`{"ph":"B","cat":"cpu_op","name":"open","pid":1,"tid":1,"ts":20}`,
			`{"ph":"E","pid":3,"tid":3,"ts":20}`),
			`operator "outer" 1000+8000 on 1/1 corr 5
operator "inner" 2000+2000 on 1/1
operator "other thread" 2000+5000 on 1/2
kernel "k" 10000+2000 device 0 stream 7 process -1
warning bad-event: 2 of 12 events could not be used as they are: 2 begin or end events without the other left out
warning unknown-category: 1 events of unused categories were left out: "mystery"`},
		{"thread names, texts for threads", list(
			`{"name":"thread_name","ph":"M","ts":1,"pid":1,"tid":1,"args":{"name":"pt_autograd_0"}}`,
			op("a", 1),
			`{"ph":"X","cat":"cpu_op","name":"b","pid":"main","tid":"loader","ts":3,"dur":1}`,
			`{"ph":"X","cat":"cpu_op","name":"c","pid":"1","tid":"1","ts":30,"dur":1}`),
			`operator "a" 1000+10000 on 1/1 (pt_autograd_0) corr 1
operator "c" 30000+1000 on 1/1 (pt_autograd_0)
operator "b" 3000+1000 on -3/-2 (loader)`},
		{"out of order", list(op("c", 30), op("a", 1), op("b", 20)),
			`operator "a" 1000+10000 on 1/1 corr 1
operator "b" 20000+10000 on 1/1 corr 20
operator "c" 30000+10000 on 1/1 corr 30`},
		{"keys in any order", list(`{"args":{"External id":4},"dur":"2.5","ts":"1.5","tid":1,"pid":1,"zz":{"a":[1,"}"]},"name":"a","cat":"cpu_op","ph":"X"}`),
			`operator "a" 1500+2500 on 1/1 corr 4`},
		{"flows where correlation ids are missing", list(
			`{"ph":"X","cat":"Runtime","name":"launch","pid":1,"tid":1,"ts":1,"dur":2,"args":{"cbid":211}}`,
			`{"ph":"s","id":41,"pid":1,"tid":1,"ts":1,"cat":"async","name":"launch"}`,
			`{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":5,"dur":2,"args":{"device":0,"stream":7}}`,
			`{"ph":"f","id":41,"pid":0,"tid":"stream 7","ts":5,"cat":"async","name":"launch","bp":"e"}`),
			`api "launch" 1000+2000 on 1/1 corr 41
kernel "k" 5000+2000 device 0 stream 7 process 1 corr 41 by "launch"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.TrimSpace(show(parse(t, c.in))); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestBrokenText(t *testing.T) {
	a, z := op("first", 1), op("last", 100)
	frame := `operator "first" 1000+10000 on 1/1 corr 1` + "\n%s" + `operator "last" 100000+10000 on 1/1 corr 100` + "\n%s"
	event := func(name string) string {
		return `{"ph": "X", "cat": "cpu_op", "name": "` + name + `", "pid": 1, "tid": 1, "ts": 50, "dur": 2, "args": {"External id": 7}}`
	}
	kept := func(name string) string {
		return fmt.Sprintf("operator %q 50000+2000 on 1/1 corr 7\n", document.CleanText(name))
	}
	for _, c := range []struct{ name, event, want, warnings string }{
		{"escapes", event(`a\"b\\c\/d\n\u0041\u00e9\ud83d\ude00`), kept("a\"b\\c/d\nA\u00e9\U0001F600"), ""},
		{"half a surrogate pair", event(`x\ud83dy\udc00z`), kept("x\uFFFDy\uFFFDz"), ""},
		{"stray escapes", event(`C:\path\x\u12`), kept(`C:\path\x\u12`), ""},
		{"a backslash at the end", event(`C:\dir\`), kept(`C:\dir\`), ""},
		{"unescaped quotation marks", event(`f<"abc">(int)`), kept(`f<"abc">(int)`), ""},
		{"unescaped quotation marks before a comma", event(`d["a", "b"]`), kept(`d["a", "b"]`), ""},
		{"unescaped quotation marks before a bracket", event(`print("x") or {"y"} or ["z"]`), kept(`print("x") or {"y"} or ["z"]`), ""},
		{"unescaped quotation marks before a colon", event(`{"k": 1}`), kept(`{"k": 1}`), ""},
		{"control characters", event("a\tb\nc\x01d\x00e"), kept("a\tb\nc\x01d\x00e"), ""},
		{"no UTF-8", event("caf\xe9 \xff\xfe"), kept("caf\uFFFD \uFFFD"), ""},
		{"braces", event("}, {] [ } ]}"), kept("}, {] [ } ]}"), ""},
		{"an event in a name", event(`}, {\"ph\": \"X\"`), kept(`}, {"ph": "X"`), ""},
		{"empty name", event(``), kept(``), ""},
		{"a mark in an argument", strings.Replace(event("x"), `"External id"`, `"Call stack": "", "Concrete Inputs": ["a "b", c", "[1]"], "External id"`, 1), kept("x"), ""},
		{"a brace missing", strings.TrimSuffix(event("x"), "}"), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 that are no JSON left out`},
		{"a mark missing", strings.Replace(event("x"), `"x"`, `"x`, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 that are no JSON left out`},
		{"a colon missing", strings.Replace(event("x"), `"pid":`, `"pid"`, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 that are no JSON left out`},
		{"no time", strings.Replace(event("x"), `"ts": 50, `, ``, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 without a usable time left out`},
		{"time is not a number", strings.Replace(event("x"), `"ts": 50`, `"ts": NaN`, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 without a usable time left out`},
		{"time out of range", strings.Replace(event("x"), `"ts": 50`, `"ts": 1e40`, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 without a usable time left out`},
		{"duration is null", strings.Replace(event("x"), `"dur": 2`, `"dur": null`, 1), strings.Replace(kept("x"), "+2000", "+0", 1), `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 without a duration taken as 0 long`},
		{"duration is negative", strings.Replace(event("x"), `"dur": 2`, `"dur": -2.5`, 1), strings.Replace(kept("x"), "+2000", "+0", 1), `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 of negative duration taken as 0 long`},
		{"no phase", strings.Replace(event("x"), `"ph": "X", `, ``, 1), "", `bad-event: 1 of 3 events could not be used as they are, the first at byte @: 1 without a phase left out`},
		{"no object", `17, "a }, b", [1, {"ph": 3}], null`, "", `bad-event: 4 of 6 events could not be used as they are: 4 no objects`},
	} {
		t.Run(c.name, func(t *testing.T) {
			warnings := strings.Replace(c.warnings, "@", strconv.Itoa(strings.Index(list(a, c.event), c.event)), 1)
			if warnings != "" {
				warnings = "warning " + warnings + "\n"
			}
			want := fmt.Sprintf(frame, c.want, warnings)
			for form, text := range map[string]string{
				"object": list(a, c.event, z),
				"array":  strings.Repeat(" ", len(`{"schemaVersion": 1, "traceEvents": `)) + "[" + strings.Join([]string{a, c.event, z}, ",\n"),
			} {
				if got := show(parse(t, text)); got != want {
					t.Errorf("%s\ngot\n%s\nwant\n%s", form, got, want)
				}
			}
		})
	}
}

// Of a name that is longer than a block the beginning is kept.
func TestLongName(t *testing.T) {
	name := strings.Repeat("very::long<name>, ", 200_000)
	tr := parse(t, list(op("a", 1), op(name, 30), op("b", 60)))
	if len(tr.Host) != 3 || tr.Name(tr.Host[1].Name) != name[:nameMax] || len(tr.Warnings) > 0 {
		t.Errorf("%d events, warnings %v", len(tr.Host), tr.Warnings)
	}
}

// kernelOf is a kernel on a device.
func kernelOf(name string, device int) string {
	return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"pid":%d,"tid":7,"ts":1,"dur":2,"args":{"device":%d,"stream":7,"correlation":3}}`, name, device, device)
}

// gpuprof's hook writes the number of CPUs beside the events.
func TestCPUs(t *testing.T) {
	for in, want := range map[string]int{`2`: 2, `"3"`: 3, `-1`: 0, `9e99`: 0, `null`: 0} {
		got := parse(t, `{"gpuprof_cpus": `+in+`, "traceEvents": [`+op("a", 1)+`]}`)
		if got.Program.CPUs != want {
			t.Errorf("%s: %d CPUs", in, got.Program.CPUs)
		}
	}
}

func TestDocument(t *testing.T) {
	ev := "[" + op("a", 1) + "]"
	props := `[{"id": 1, "name": "Card \"B\"", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "numSms": 132}, {"id": 0, "name": "A", "computeMajor": 7, "computeMinor": 5}]`
	for _, c := range []struct{ name, in, rank, devices, warnings string }{
		{"devices before", `{"deviceProperties": ` + props + `, "traceEvents": ` + ev + `}`, "-1/0", "[{0 A 7 5 0 0 0 0 0 0 } {1 Card \"B\" 9 0 132 85018279936 0 0 0 0 }]", ""},
		{"devices after", `{"traceEvents": ` + ev + `, "deviceProperties": ` + props + `}`, "-1/0", "[{0 A 7 5 0 0 0 0 0 0 } {1 Card \"B\" 9 0 132 85018279936 0 0 0 0 }]", ""},
		{"one device by another number", `{"deviceProperties": [{"id": 0, "name": "A"}], "traceEvents": [` + op("a", 1) + `,` + kernelOf("k", 9) + `]}`, "-1/0", "[{9 A 0 0 0 0 0 0 0 0 }]", ""},
		{"two devices by other numbers", `{"deviceProperties": [{"id": 0, "name": "A"}], "traceEvents": [` + op("a", 1) + `,` + kernelOf("k", 9) + `,` + kernelOf("l", 8) + `]}`, "-1/0", "[{0 A 0 0 0 0 0 0 0 0 } {8  0 0 0 0 0 0 0 0 } {9  0 0 0 0 0 0 0 0 }]", ""},
		{"rank", `{"traceEvents":` + ev + `,"distributedInfo":{"backend":"nccl","pg_config":[{"rank":9}],"rank":3,"world_size":8}}`, "3/8", "[]", ""},
		{"rank as a string", `{"distributedInfo":{"rank":"2","world_size":"4"},"traceEvents":` + ev + `}`, "2/4", "[]", ""},
		{"marks in what is skipped", `{"metadata": {"a": "x \" y", "b": "C:\\", "traceEvents": [1]}, "n": -1.5e3, "t": true, "e": "", "traceEvents": ` + ev + `}`, "-1/0", "[]", ""},
		{"byte order mark", "\ufeff {\"traceEvents\": " + ev + "}", "-1/0", "[]", ""},
		{"array", ev, "-1/0", "[]", ""},
		{"array without its end", ev[:len(ev)-1], "-1/0", "[]", ""},
		{"array with a last comma", ev[:len(ev)-1] + ",\n", "-1/0", "[]", ""},
		{"text behind an object", `{"traceEvents":` + ev + `} {"traceEvents":` + ev + "}", "-1/0", "[]", "trailing-data: the text after the trace, from byte @, was ignored"},
		{"zeros behind an array", ev + "\n\x00\x00garbage", "-1/0", "[]", "trailing-data: the text after the trace, from byte @, was ignored"},
		{"broken before the events", `{"a" 1, "traceEvents": ` + ev + `}`, "-1/0", "[]", "malformed: the text around the events is not JSON at byte 1; its data about devices and ranks may be missing"},
		{"broken behind the events", `{"traceEvents": ` + ev + `, oops}`, "-1/0", "[]", "malformed: the text around the events is not JSON at byte @; its data about devices and ranks may be missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := parse(t, c.in)
			var w []string
			mark := max(strings.LastIndex(c.in, "{\"traceEvents"), strings.Index(c.in, "garbage"), strings.Index(c.in, "oops"))
			for _, v := range tr.Warnings {
				w = append(w, v.Code+": "+v.Text)
			}
			if len(tr.Host) != 1 || tr.Truncated {
				t.Errorf("%d events, truncated %v", len(tr.Host), tr.Truncated)
			}
			if got := strings.Join(w, "; "); got != strings.Replace(c.warnings, "@", strconv.Itoa(mark), 1) {
				t.Errorf("warnings\n%s\nwant\n%s", got, c.warnings)
			}
			if got := fmt.Sprintf("%d/%d", tr.Rank, tr.World); got != c.rank {
				t.Errorf("rank %s, want %s", got, c.rank)
			}
			if got := fmt.Sprint(tr.Devices); got != c.devices {
				t.Errorf("devices %s, want %s", got, c.devices)
			}
		})
	}
}

func TestBaseTime(t *testing.T) {
	const base = 1751410836000000000
	relative := `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1419247332972.313,"dur":1},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1419247332980,"dur":1},{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":1419247332975}],"baseTimeNanoseconds":1751410836000000000}`
	tr := parse(t, relative)
	if got := tr.Host[0].Start; got != base+1419247332972313 {
		t.Errorf("operator at %d", got)
	}
	if got := tr.GPU[0].End; got != base+1419247332981000 {
		t.Errorf("kernel until %d", got)
	}
	if got := tr.Memory[0].At; got != base+1419247332975000 {
		t.Errorf("allocation at %d", got)
	}
	absolute := strings.Replace(list(op("a", 1751410836000000), op("b", 1751410836000001)), `"schemaVersion": 1`, `"baseTimeNanoseconds": 1751410836000000000`, 1)
	if got := parse(t, absolute).Host[0].Start; got != base {
		t.Errorf("times that hold the base already became %d", got)
	}
}

func TestInflated(t *testing.T) {
	python := `{"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":1,"dur":1}`
	overhead := `{"ph":"X","cat":"overhead","name":"o","pid":1,"tid":1,"ts":1,"dur":%d}`
	for in, want := range map[string]bool{
		list(op("a", 1)):                           false,
		list(op("a", 1), python):                   true,
		list(op("a", 1), fmt.Sprintf(overhead, 0)): false,
		list(op("a", 1), fmt.Sprintf(overhead, 3)): true,
	} {
		if got := parse(t, in).Inflated; got != want {
			t.Errorf("inflated %v, want %v: %s", got, want, in)
		}
	}
}

// TestProcesses merges two processes whose correlation ids are the same.
func TestProcesses(t *testing.T) {
	var events []string
	for pid := 1; pid <= 2; pid++ {
		for i := range 50 {
			ts := 1000*i + 400*pid
			events = append(events,
				fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"launch %d","pid":%d,"tid":1,"ts":%d,"dur":5,"args":{"correlation":%d}}`, pid, pid, ts, i+1),
				fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"k","pid":%d,"tid":7,"ts":%d,"dur":5,"args":{"device":%d,"stream":7,"correlation":%d}}`, pid-1, ts+100, pid-1, i+1))
		}
	}
	tr := parse(t, list(events...))
	for _, g := range tr.GPU {
		device := tr.Devices[g.Device].ID
		if g.Process != int32(device+1) {
			t.Errorf("device %d is of process %d", device, g.Process)
		}
		if g.Launch < 0 || tr.Name(tr.Host[g.Launch].Name) != fmt.Sprintf("launch %d", device+1) {
			t.Errorf("device %d: launched by %d", device, g.Launch)
		}
	}
}

func TestElect(t *testing.T) {
	for _, c := range []struct {
		votes []map[int32]int
		want  []int32
	}{
		{[]map[int32]int{{1: 100, 2: 20}, {1: 100, 2: 100}}, []int32{1, 2}},
		{[]map[int32]int{{1: 100, 2: 100}, {1: 100, 2: 100}}, []int32{-1, -1}},
		{[]map[int32]int{{1: 100}, {1: 100, 2: 10}}, []int32{1, 1}},
		{[]map[int32]int{nil, {2: 3}}, []int32{-1, 2}},
		{[]map[int32]int{{1: 9, 2: 9, 3: 9}, {1: 9, 2: 1}, {1: 9, 2: 9}}, []int32{3, 1, 2}},
	} {
		got := make([]int32, len(c.votes))
		electOwners(c.votes, got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.votes, got, c.want)
		}
	}
}

func gz(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func zst(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"empty gzip", gz(""), "holds no text"},
		{"white space", " \n ", "holds no text"},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00\x00", "binary file"},
		{"sqlite", "SQLite format 3\x00\x10\x00", "binary file"},
		{"text", "hello, world", "no JSON trace (byte 0)"},
		{"broken gzip", "\x1f\x8b\x08garbage", "gzip data cannot be read"},
		{"broken zstd", "\x28\xb5\x2f\xfdgarbage", "zstd data cannot be read"},
		{"object without events", `{"a": 1}`, "without an array traceEvents"},
		{"empty object", `{}`, "without an array traceEvents"},
		{"events are no array", `{"traceEvents": {"a": 1}}`, "traceEvents is no array"},
		{"events are null", `{"traceEvents": null}`, "traceEvents is no array"},
		{"no events", `{"traceEvents": []}`, "0 events"},
		{"no events, array", `[]`, "0 events"},
		{"array of numbers", `[1, 2, 3]`, "no trace events"},
		{"array of objects", `[{"a": 1}, {"b": 2}]`, "no trace events"},
		{"metadata only", list(`{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}}`), "none of its 1 events"},
		{"somebody else's trace", list(`{"ph":"X","cat":"browser","name":"x","pid":1,"tid":1,"ts":1,"dur":1}`), "none of its 1 events"},
		{"cut before the events", `{"schemaVersion": 1, "deviceProp`, "ends at byte 32 before its first event"},
		{"a first event without end", `{"traceEvents": [{"ph": "X", "name": "` + strings.Repeat("a", carryMax), "the element at byte 17, before its first event, is longer than 64 MiB"},
		{"cut in the first event", `{"traceEvents": [{"ph": "X", "na`, "ends at byte 32 before its first event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := Read(context.Background(), strings.NewReader(c.in), "some.json", 0)
			if err == nil {
				t.Fatalf("no error; %s", show(tr))
			}
			if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "some.json") || !strings.Contains(err.Error(), "docs/analyze.md") {
				t.Errorf("%v; want it to say %q", err, c.want)
			}
		})
	}
}

// TestSmallBlocks reads a trace in blocks of every small size: cuts fall on
// every byte, and the guesses where events begin are wrong often.
func TestSmallBlocks(t *testing.T) {
	text := `{"n": {"a": "b \" c", "d": [{"ph": 1}, {"ph": 2}]}, "traceEvents": [` + strings.Join([]string{
		op("a", 1), op(`q \"x\" \\`, 20), op(`"u", v`, 40),
		`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5.25,"dur":2,"args":{"list":[{"name":1},{"name":{"ph":[2]}}],"grid":[1,2,3]}}`,
		op("z", 60), op("y", 80),
	}, ",\n  ") + `], "deviceProperties": [{"id": 0, "name": "x"}, {"id": 1, "name": "y \\"}]}`
	want := parse(t, text)
	if len(want.Host) != 5 || len(want.GPU) != 1 || len(want.Devices) != 2 || len(want.Warnings) > 0 {
		t.Fatal(show(want))
	}
	for block := 8; block < 300; block++ {
		for parsers := 1; parsers <= 3; parsers++ {
			tr, err := read(context.Background(), strings.NewReader(text), "t", readOptions{parsers: parsers, block: block})
			if err != nil {
				t.Fatalf("blocks of %d: %v", block, err)
			}
			if got := show(tr) + fmt.Sprint(tr.Devices); got != show(want)+fmt.Sprint(want.Devices) {
				t.Fatalf("blocks of %d:\n%s\nwant\n%s", block, got, show(want))
			}
		}
	}
}

// TestTruncated cuts a trace at every byte.
func TestTruncated(t *testing.T) {
	text := list(op("a", 1), `{"ph":"X","cat":"kernel","name":"k \"q\" [","pid":0,"tid":7,"ts":5.25,"dur":2,"args":{"grid":[1,2,3],"correlation":4}}`, op("b", 20))
	text = strings.TrimSuffix(text, "}") + `, "deviceProperties": [{"id": 0, "name": "x"}]}`
	ends := []int{}
	for i := range text {
		if strings.HasSuffix(text[:i], `}}`) {
			ends = append(ends, i)
		}
	}
	for n := range text {
		tr, err := Read(context.Background(), strings.NewReader(text[:n]), "t", 0)
		want := 0
		for _, e := range ends {
			if n >= e {
				want++
			}
		}
		if want == 0 {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Errorf("cut at %d: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("cut at %d: %v", n, err)
			continue
		}
		if got := len(tr.Host) + len(tr.GPU); got != want || tr.Events != want {
			t.Errorf("cut at %d: %d events kept, %d counted, want %d", n, got, tr.Events, want)
		}
		if !tr.Truncated || len(tr.Warnings) != 1 || tr.Warnings[0].Code != "truncated" || !strings.Contains(tr.Warnings[0].Text, fmt.Sprintf("ends at byte %d ", n)) {
			t.Errorf("cut at %d: truncated %v, %v", n, tr.Truncated, tr.Warnings)
		}
	}
}

// Several blocks of each compression.
func TestTruncatedCompression(t *testing.T) { truncatedCompression(t, 3<<18) }

func truncatedCompression(t *testing.T, size int64) {
	t.Helper()
	var text strings.Builder
	if _, err := tracetest.Write(&text, tracetest.Options{Bytes: size, Seed: 5}); err != nil {
		t.Fatal(err)
	}
	whole := parse(t, text.String())
	packed := gz(text.String())
	flipped := []byte(packed)
	flipped[len(flipped)/2] ^= 0xFF
	flipped[len(flipped)/2+1] ^= 0xFF
	z := zst(t, text.String())
	for name, in := range map[string]string{
		"gzip cut":      packed[:len(packed)/2],
		"gzip no end":   packed[:len(packed)-4],
		"gzip checksum": packed[:len(packed)-8] + "\x00\x00\x00\x00" + packed[len(packed)-4:],
		"gzip flipped":  string(flipped),
		"zstd cut":      z[:len(z)/2],
	} {
		t.Run(name, func(t *testing.T) {
			tr := parse(t, in)
			if !tr.Truncated || len(tr.Warnings) == 0 || tr.Warnings[0].Code != "truncated" {
				t.Errorf("truncated %v, %v", tr.Truncated, tr.Warnings)
			}
			if tr.Events == 0 || tr.Events > whole.Events {
				t.Errorf("%d events of %d", tr.Events, whole.Events)
			}
		})
	}
	for name, in := range map[string]string{"gzip": packed, "zstd": z, "two gzip members": gz(text.String()[:1000]) + gz(text.String()[1000:])} {
		tr := parse(t, in)
		if show(tr) != show(whole) {
			t.Errorf("%s: not the same trace", name)
		}
	}
	tr := parse(t, packed+"trailing garbage")
	if tr.Truncated || len(tr.Warnings) != 1 || tr.Warnings[0].Code != "trailing-data" {
		t.Errorf("garbage behind gzip: %v, %v", tr.Truncated, tr.Warnings)
	}
}

func TestReadError(t *testing.T) {
	boom := errors.New("boom")
	text := list(op("a", 1), op("b", 20))
	tr, err := Read(context.Background(), io.MultiReader(strings.NewReader(text[:len(text)-8]), iotest.ErrReader(boom)), "t", 0)
	if err != nil || !tr.Truncated || len(tr.Host) != 1 || !strings.Contains(tr.Warnings[0].Text, "boom") {
		t.Errorf("%v, %+v", err, tr)
	}
	if _, err = Read(context.Background(), iotest.ErrReader(boom), "t", 0); !errors.Is(err, boom) {
		t.Errorf("nothing read: %v", err)
	}
	if _, err = Read(context.Background(), idle{}, "t", 0); err == nil {
		t.Error("a reader that never reads gave a trace")
	}
}

// idle never reads anything.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	go func() {
		_, _ = tracetest.Write(&after{w: w, n: 4 << 20, then: cancel}, tracetest.Options{Bytes: 16 << 20})
		_ = w.Close()
	}()
	_, err := Read(ctx, r, "t", 0)
	_ = r.Close()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// after calls then once n bytes are written.
type after struct {
	w    io.Writer
	n    int
	then func()
}

func (a *after) Write(b []byte) (int, error) {
	if a.n -= len(b); a.n < 0 {
		a.then()
	}
	return a.w.Write(b)
}

func TestIsTrace(t *testing.T) {
	text := list(op("a", 1))
	var long strings.Builder
	if _, err := tracetest.Write(&long, tracetest.Options{Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]bool{
		text:                             true,
		long.String()[:64<<10]:           true,
		"\ufeff[" + op("a", 1) + ",{\"p": true,
		"[" + op("a", 1):                 true,
		`{"traceEvents" : [`:             true,
		`[{"name":"a"},{"ph":"X"}]`:      false,
		`{"schema_version":"1.0.0"}`:     false,
		"SQLite format 3":                false,
		"[":                              false,
		"":                               false,
	} {
		if got := IsTrace([]byte(in)); got != want {
			t.Errorf("IsTrace(%.40q) = %v", in, got)
		}
	}
}
