package period

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// program makes up the launches of one, and where its steps begin.
type program struct {
	r     *rand.Rand
	at    float64 // us
	names map[string]int32
	all   []Launch
	marks []int
}

func (p *program) op(name string, us, gapUS float64, kernel bool) {
	id, ok := p.names[name]
	if !ok {
		id = int32(len(p.names))
		p.names[name] = id
	}
	p.at += gapUS * (0.8 + 0.4*p.r.Float64())
	p.all = append(p.all, Launch{At: int64(1000 * p.at), NS: int64(1000 * us * (0.9 + 0.2*p.r.Float64())), Name: id, Kernel: kernel})
}

func (p *program) kernel(name string, us float64) { p.op(name, us, 3, true) }
func (p *program) copy(name string, us float64)   { p.op(name, us, 3, false) }

// step begins one, for which the host needs a while.
func (p *program) step() {
	p.marks = append(p.marks, len(p.all))
	p.at += 30
}

func (p *program) layers(n int, tag string, kernels int) {
	for range n {
		for i := range kernels {
			p.kernel(fmt.Sprint(tag, i), []float64{5, 30, 8}[i%3])
		}
	}
}

// training is a program that trains.
type training struct {
	steps, layers, log, accumulate, optimizer, ragged, warm, evaluate int
}

func (c training) make(p *program) {
	for range c.warm {
		p.kernel(fmt.Sprint("tune", p.r.IntN(50)), 20)
	}
	for s := range c.steps {
		p.step()
		for range max(c.accumulate, 1) {
			p.copy("Memcpy HtoD", 10)
			p.kernel("embed", 5)
			p.layers(c.layers, "f", 12)
			p.kernel("loss", 5)
			p.layers(c.layers, "b", 20)
			p.kernel("embed_bwd", 5)
			for range p.r.IntN(c.ragged + 1) {
				p.kernel("ragged", 5)
			}
		}
		for range c.optimizer {
			p.kernel("adam", 5)
		}
		if c.log > 0 && s%c.log == 0 {
			p.copy("Memcpy DtoH", 2)
		}
		if c.evaluate > 0 && s == c.evaluate {
			for range 15 {
				p.kernel("embed", 5)
				p.layers(c.layers, "f", 12)
				p.kernel("metric", 5)
			}
		}
	}
	p.step()
}

// decoding is a program that makes one token after the other.
func decoding(steps, layers, extra int) func(*program) {
	return func(p *program) {
		p.layers(3*layers, "prefill", 4)
		for range steps {
			p.step()
			p.kernel("embed", 5)
			p.layers(layers, "d", 12)
			for x := range extra {
				p.kernel(fmt.Sprint("head", x), []float64{60, 5}[min(x, 1)])
			}
			p.copy("Memcpy DtoH", 2)
		}
		p.step()
	}
}

// losing drops a part of the records.
func losing(part float64, of func(*program)) func(*program) {
	return func(p *program) {
		of(p)
		kept, at := p.all[:0:0], make([]int, 0, len(p.all)+1)
		for _, l := range p.all {
			at = append(at, len(kept))
			if p.r.Float64() >= part {
				kept = append(kept, l)
			}
		}
		at = append(at, len(kept))
		for i, m := range p.marks {
			p.marks[i] = at[m]
		}
		p.all = kept
	}
}

// swapping lets two threads launch in turn.
func swapping(part float64, of func(*program)) func(*program) {
	return func(p *program) {
		of(p)
		for i := range len(p.all) - 1 {
			if p.r.Float64() < part {
				a, b := p.all[i], p.all[i+1]
				a.At, b.At = b.At, a.At
				p.all[i], p.all[i+1] = b, a
			}
		}
	}
}

func short(steps, period int) func(*program) {
	return func(p *program) {
		for range steps {
			p.step()
			p.copy("Memcpy HtoD", 5)
			for i := range period {
				p.kernel(fmt.Sprint("g", i), 5)
			}
		}
		p.step()
	}
}

var programs = []struct {
	name string
	make func(*program)
}{
	{"training", training{steps: 12, layers: 24, optimizer: 40}.make},
	{"a number read every 5 steps", training{steps: 30, layers: 6, log: 5, optimizer: 40}.make},
	{"a number read every 10 short steps", training{steps: 60, layers: 1, log: 10, optimizer: 5}.make},
	{"gradients of 4 batches", training{steps: 12, layers: 12, accumulate: 4, optimizer: 40}.make},
	{"ragged", training{steps: 20, layers: 12, ragged: 30, optimizer: 40}.make},
	{"a long warm-up", training{steps: 12, layers: 12, warm: 3000, optimizer: 40}.make},
	{"evaluation in the middle", training{steps: 16, layers: 12, evaluate: 7, optimizer: 40}.make},
	{"decoding, 100 layers", decoding(20, 100, 10)},
	{"decoding, 32 layers, 3 more kernels", decoding(60, 32, 3)},
	{"decoding, 100 layers, 3 more kernels", decoding(20, 100, 3)},
	{"1 % of the records lost", losing(0.01, training{steps: 20, layers: 12, optimizer: 40}.make)},
	{"5 % of the records lost", losing(0.05, training{steps: 20, layers: 6, optimizer: 40}.make)},
	{"2 % swapped", swapping(0.02, training{steps: 20, layers: 12, optimizer: 40}.make)},
	{"10 % swapped", swapping(0.1, training{steps: 20, layers: 12, optimizer: 40}.make)},
	{"a copy and thirty kernels", short(50, 30)},
	{"no steps at all", func(p *program) {
		for range 5000 {
			p.kernel(fmt.Sprint("k", p.r.IntN(40)), 5)
		}
	}},
}

// check says how what was found differs from what was made.
func (p *program) check(f *Found) string {
	switch {
	case len(p.marks) == 0 && f == nil:
		return ""
	case len(p.marks) == 0:
		return fmt.Sprintf("%d steps of %d launches in a program without any", len(f.Steps), f.Launches)
	case f == nil:
		return "none found"
	}
	var made []int32
	for i := range len(p.marks) - 1 {
		made = append(made, int32(p.marks[i+1]-p.marks[i]))
	}
	ratio := float64(f.Launches) / medianOf(made) / float64(f.Joined)
	if math.Abs(ratio-1) > 0.05 {
		return fmt.Sprintf("a step of %d launches, %d times, where %v were made", f.Launches, f.Joined, medianOf(made))
	}
	for i, s := range f.Steps {
		if s.From >= s.To || s.To > len(p.all) || i > 0 && s.From < f.Steps[i-1].To {
			return fmt.Sprintf("step %d is %+v", i, s)
		}
	}
	if least := (len(made)*3/4 - 2) / f.Joined; len(f.Steps) < least {
		return fmt.Sprintf("%d steps, at least %d are wanted of %d", len(f.Steps), least, len(made))
	}
	return ""
}

// One kernel alone repeats, and a step is many of it.
func TestOneKernel(t *testing.T) {
	p := &program{r: rand.New(rand.NewPCG(1, 1)), names: map[string]int32{}}
	for range 5000 {
		p.kernel("k", 5)
	}
	f := Find(p.all)
	if f == nil || f.Joined < 300 || f.Launches != f.Joined {
		t.Fatalf("%+v", f)
	}
}

// Short repeats are joined to a millisecond, though three steps are left.
func TestJoined(t *testing.T) {
	for n, want := range map[int]int{9: 3, 60: 9} {
		p := &program{r: rand.New(rand.NewPCG(1, 1)), names: map[string]int32{}}
		short(n+1, 30)(p)
		f := Find(p.all)
		if f == nil || f.Joined != want || f.Launches != 31*want {
			t.Errorf("%d repeats: %+v, want %d joined", n, f, want)
		}
	}
}

// Repeats that the host launches in microseconds and the device runs for longer than a millisecond are not joined.
func TestHostFarAhead(t *testing.T) {
	var all []Launch
	for i := range int64(40) { // a fill and a graph
		all = append(all, Launch{At: i * 100_000, NS: 2_000, Kernel: true}, Launch{At: i*100_000 + 20_000, NS: 5_000_000, Name: 1, Kernel: true})
	}
	if f := Find(all); f == nil || f.Launches != 2 || f.Joined != 1 {
		t.Errorf("%+v", f)
	}
}

// Twenty equal kernels between small copies are a step, though the kernel alone repeats, too.
func TestEqualKernelsBetweenCopies(t *testing.T) {
	p := &program{r: rand.New(rand.NewPCG(1, 1)), names: map[string]int32{}}
	for range 60 {
		p.copy("Memcpy HtoD", 0.1)
		for range 20 {
			p.op("null", 5, 30, true)
		}
		p.copy("Memcpy DtoH", 0.1)
	}
	if f := Find(p.all); f == nil || f.Launches != 44 || f.Joined != 2 {
		t.Errorf("%+v", f)
	}
}

// Of more launches than are looked at the last ones are.
func TestTheLastLaunches(t *testing.T) {
	p := &program{r: rand.New(rand.NewPCG(1, 1)), names: map[string]int32{}}
	for range MostLaunches {
		p.kernel(fmt.Sprint("k", p.r.IntN(1000)), 5)
	}
	begin := len(p.all)
	for len(p.all) < begin+MostLaunches*3/4 {
		short(100, 300)(p)
	}
	f := Find(p.all)
	if f == nil || f.Launches%301 != 0 || f.Steps[0].From < begin || f.Steps[len(f.Steps)-1].To < len(p.all)-2*301 {
		t.Fatalf("%+v of %d", f, len(p.all))
	}
}

func TestNothing(t *testing.T) {
	for n := range 8 {
		all := slices.Repeat([]Launch{{Kernel: true}}, n)
		if f := Find(all); n <= minRepeats && f != nil {
			t.Errorf("%d launches: %+v", n, f)
		}
	}
}
