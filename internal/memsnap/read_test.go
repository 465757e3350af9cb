package memsnap

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

func readBytes(text []byte) (*Snapshot, error) {
	return Read(context.Background(), bytes.NewReader(text), "x.pickle", 0)
}

func mustRead(t testing.TB, text []byte) *Snapshot {
	t.Helper()
	s, err := readBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stack is two frames: of PyTorch, and of a line of the program.
func stack(line int) *memtest.List {
	return memtest.Of(memtest.Frame("linear", "/usr/lib/site-packages/torch/nn/functional.py", 9), memtest.Frame("forward", "/home/u/train.py", line))
}

// recorded is a small recording of a version of PyTorch.
func recorded(minor int) *memtest.Recorder {
	r := memtest.New(2, minor)
	r.Alloc(3<<20, stack(10))
	b := r.Alloc(1000, stack(11))
	big := r.Alloc(24<<20, stack(12))
	r.Free(b, stack(13))
	r.Free(big, stack(13))
	r.Alloc(7, nil)
	return r
}

// Both writers, every protocol and every version give the same snapshot.
func TestReadsEveryWriter(t *testing.T) {
	for _, minor := range []int{0, 1, 2, 3, 5, 10, 12, 15} {
		root := recorded(minor).Snapshot()
		var first *Snapshot
		for name, text := range map[string][]byte{"2": memtest.Python(root, 2), "4": memtest.Python(root, 4), "5": memtest.Python(root, 5), "C++": memtest.CPP(root)} {
			s := mustRead(t, text)
			s.Bytes, s.Protocol = 0, 0
			if first == nil {
				first = s
			}
			if s.Events() != 11 || len(s.Segments) != 3 || s.Segments[0].Total != 20<<20 || s.Devices() != 1 {
				t.Errorf("2.%d, %s: %d events, segments %+v", minor, name, s.Events(), s.Segments)
			}
			live := s.Blocks(&s.Segments[0])[0]
			want := []Frame{{"linear", "/usr/lib/site-packages/torch/nn/functional.py", 9, ""}, {"forward", "/home/u/train.py", 10, ""}}
			if live.State != Active || live.Requested != 3<<20 || live.Address != 0x7f0000000000 || !reflect.DeepEqual(s.Stack(live.stack), want) {
				t.Errorf("2.%d, %s: block %+v of %v", minor, name, live, s.Stack(live.stack))
			}
			if s.Settings.Known != (minor >= 3) || s.hasTime != (minor >= 2) {
				t.Errorf("2.%d, %s: settings %+v, times %v", minor, name, s.Settings, s.hasTime)
			}
			if !reflect.DeepEqual(s, first) {
				t.Errorf("2.%d: the snapshot of %s differs from another writer's", minor, name)
			}
		}
	}
}

// What torch.cuda.memory_snapshot() returns is a list of segments.
// The two numbers of a private pool may be a list, which a writer in Python shares between segments and events.
func TestReadsSharedLists(t *testing.T) {
	r := memtest.New(2, 15)
	for i := range 4 {
		r.AllocIn(24<<20, 0, i%3, stack(i))
	}
	want := mustRead(t, memtest.Python(r.Snapshot(), 4))
	root, lists := r.Snapshot(), map[memtest.Tuple]*memtest.List{}
	var shared int
	var change func(v any)
	change = func(v any) {
		switch v := v.(type) {
		case *memtest.List:
			for _, item := range v.Items {
				change(item)
			}
		case *memtest.Dict:
			for i, m := range v.Members {
				if pair, ok := m.Value.(memtest.Tuple); ok {
					if lists[pair] == nil {
						lists[pair] = memtest.Of(pair[0], pair[1])
					}
					v.Members[i].Value, shared = lists[pair], shared+1
				}
				change(m.Value)
			}
		}
	}
	change(root)
	for _, protocol := range []int{2, 4, 5} {
		got := mustRead(t, memtest.Python(root, protocol))
		if shared < 2*len(lists) || len(lists) < 3 || !reflect.DeepEqual(got.Segments, want.Segments) || !reflect.DeepEqual(got.places, want.places) {
			t.Errorf("protocol %d, %d pairs in %d lists: %+v, want %+v", protocol, shared, len(lists), got.Segments, want.Segments)
		}
	}
}

func TestReadsSegmentsAlone(t *testing.T) {
	segs := recorded(15).Snapshot().Members[0].Value
	for _, text := range [][]byte{memtest.Python(segs, 4), memtest.CPP(segs)} {
		if s := mustRead(t, text); len(s.Segments) != 3 || s.Events() != 0 {
			t.Errorf("%d segments, %d events", len(s.Segments), s.Events())
		}
	}
}

// Lists beyond one batch of either writer are read as a whole, and keys that are not
// known, however deep, change nothing.
func TestReadsLongAndUnknown(t *testing.T) {
	r := memtest.New(2, 15)
	for i := range 5000 {
		r.Alloc(int64(512*(1+i%7)), stack(i%5))
	}
	root := r.Snapshot()
	odd := (&memtest.Dict{}).Set("a", memtest.Of(memtest.Of(memtest.Of(1, "x", nil)), (&memtest.Dict{}).Set("b", memtest.Tuple{1, 2}))).Set("c", 1.5).Set("d", true).Set("e", -70000)
	root.Members = append([]memtest.Member{{Key: "newer", Value: odd}}, root.Members...)
	for _, e := range r.Events {
		e.Set("internal_metadata", memtest.Of("a", memtest.Of()))
	}
	root.Set("host_segments", r.Snapshot().Members[0].Value).Set("later", odd)
	for name, text := range map[string][]byte{"Python": memtest.Python(root, 4), "C++": memtest.CPP(root)} {
		s := mustRead(t, text)
		blocks := 0
		for i := range s.Segments {
			blocks += len(s.Blocks(&s.Segments[i]))
		}
		if s.Events() != len(r.Events) || blocks < 5000 || len(s.stackAt) != 7 {
			t.Errorf("%s: %d events, %d blocks, %d stacks", name, s.Events(), blocks, len(s.stackAt))
		}
	}
}

// Every opcode that snapshots do not consist of, and every count that no snapshot has, is
// refused in one sentence, in little memory.
func TestRefusesHostilePickles(t *testing.T) {
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	cases := map[string]string{
		"cos\nsystem\n(S'true'\ntR.":      "GLOBAL makes a pickle run code",
		"\x8c\x02os\x8c\x06system\x93.":   "STACK_GLOBAL makes a pickle run code",
		"(ios\nsystem\n.":                 "INST makes a pickle run code",
		"}R.":                             "REDUCE makes a pickle run code",
		"}}b.":                            "BUILD makes a pickle run code",
		"}}\x81.":                         "NEWOBJ makes a pickle run code",
		"\x82\x01.":                       "EXT1 makes a pickle run code",
		"Px\n.":                           "PERSID makes a pickle run code",
		"}Q.":                             "BINPERSID makes a pickle run code",
		strings.Repeat("(", 100):          "64 levels deep",
		strings.Repeat("]", 20000):        "containers lie inside each other",
		strings.Repeat("K\x01", 1<<20+10): "values wait on its stack",
		"X\xff\xff\xff\x7f":               "a string has 2147483647 bytes",
		"\x8d" + string(long):             "a string has 1099511627776 bytes",
		"\x8a\xff":                        "an integer has 255 bytes",
		"\x8b\xff\xff\xff\xff":            "an integer has 4294967295 bytes",
		"r\xff\xff\xff\xff":               "it refers to a value that is not there",
		"}r\xff\xff\xff\xff":              "out of order",
		"h\x05.":                          "a value that comes later",
		"]\x94h\x00a.":                    "no open list",
		"]\x94(h\x00e.":                   "no open list",
		"u.":                              "a mark that is not there",
		"a.":                              "values that are not there",
		"s.":                              "no open list or dictionary",
		"\x86.":                           "values that are not there",
		"}K\x01K\x02s.":                   "no string",
		"}(K\x01u.":                       "a key without a value",
		"}.":                              "holds no snapshot",
		"N.":                              "holds no snapshot",
		"].":                              "",
		".":                               "left on its stack",
		"2.":                              "opcode 0x32",
		"\x80\x07.":                       "protocol 7",
		"":                                "ends early",
	}
	for text, want := range cases {
		s, err := readBytes([]byte("\x80\x04" + text))
		if want == "" {
			if err != nil || len(s.Segments) != 0 {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if len(text) > 40 {
			text = text[:40]
		}
		if err == nil || !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	for op := range 256 { // none panics, whatever is before it
		for _, before := range []string{"", "}", "]", "(", "}(", "](", "}\x8c\x06action\x8c\x05alloc", "](}\x8c\x06action\x8c\x05alloc"} {
			_, _ = readBytes([]byte("\x80\x04" + before + string([]byte{byte(op)}) + "\x01\x02."))
		}
	}
}

// A file that ends early gives the state at its end where the segments are whole.
func TestCutFiles(t *testing.T) {
	root := recorded(15).Snapshot()
	text := memtest.Python(root, 4)
	kept := 0
	for n := range len(text) {
		s, err := readBytes(text[:n])
		switch {
		case err == nil && (!s.Truncated || len(s.Segments) != 3 || s.Events() == 0 && n == len(text)-1):
			t.Fatalf("of %d bytes: %+v", n, s)
		case err == nil:
			kept++
		case !strings.Contains(err.Error(), "ends early"):
			t.Fatalf("of %d bytes: %v", n, err)
		}
	}
	if kept < len(text)/3 {
		t.Errorf("%d of %d lengths give the state at the end", kept, len(text))
	}
}

// What is kept of a file stays within the memory that it may take.
func TestBoundedMemory(t *testing.T) {
	r := memtest.New(2, 15)
	for i := range chunk - 16 {
		r.Free(r.Alloc(512, stack(1)), stack(i%100))
	}
	text := memtest.Python(r.Snapshot(), 4)
	_, err := Read(context.Background(), bytes.NewReader(text), "x.pickle", 1<<20)
	if _, large := errors.AsType[*outside.TooLarge](err); !large || !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("%v", err)
	}
	m := newMachine(context.Background(), bytes.NewReader(text), 1<<30)
	if err := m.run(); err != nil {
		t.Fatal(err)
	}
	if each := float64(m.all-m.room) / float64(m.s.Events()); each > 48 {
		t.Errorf("%.1f bytes are kept of each event", each)
	}
}

// Seeds are small: go test -fuzz shortens every input that reaches new code, and spent all
// its time on one of 6 kB before it tried another.
func FuzzRead(f *testing.F) {
	for _, minor := range []int{0, 5, 15} {
		r := memtest.New(2, minor)
		r.Free(r.Alloc(1000, memtest.Of(memtest.Frame("f", "t.py", 1))), nil)
		root := r.Snapshot()
		for _, text := range [][]byte{memtest.Python(root, 4), memtest.CPP(root)} {
			if len(text) > 3000 {
				f.Fatalf("a seed of %d bytes", len(text))
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(context.Background(), bytes.NewReader(text), "x.pickle", 64<<20)
		if err == nil {
			for i := range s.Segments {
				_ = len(s.Blocks(&s.Segments[i]))
			}
			_, err = Analyze(context.Background(), []*Snapshot{s}, gpuprof.Tool{}, Options{})
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err.Error())
		}
	})
}

// The long snapshots of the benchmark are read as a whole.
func TestReadsLongSnapshots(t *testing.T) {
	var b bytes.Buffer
	events, err := memtest.Long(&b, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	s := mustRead(t, b.Bytes())
	if s.Events() != events || events < 1000 {
		t.Errorf("%d of %d events", s.Events(), events)
	}
	if r := NewReplay(s, 0); !r.Complete || r.Moved != 0 {
		t.Errorf("complete %v, %d contradictions", r.Complete, r.Moved)
	}
}
