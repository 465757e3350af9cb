package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/roofline"
)

const (
	// leastRead: reading weights can bound the decode steps only if matrix products and attention together take at least
	// this share of their time.
	leastRead = 0.5
	// leastShaped: the finding names the bytes read only if matrix products with recorded shapes take at least this
	// share of the time of all matrix products.
	leastShaped = 0.9
)

// weightFormat is a storage format of weights. It is recognised by lower-case words in the name of the kernel that
// reads them.
type weightFormat struct {
	words     []string
	name      string
	bytes     float64 // per weight, with scales
	precision string  // of the arithmetic
}

// weightFormats are tried in order. Bytes: OCP MX specification 1.0 has an 8-bit scale per 32 values, NVFP4 one per
// 16; 4-bit integers usually have a scale and a zero point per 128.
var weightFormats = []weightFormat{
	{[]string{"bf16xmxfp4", "fp16xmxfp4"}, "mxfp4", 17. / 32, "16-bit"},
	{[]string{"mxfp4", "mxe2m1"}, "mxfp4", 17. / 32, "fp8"},
	{[]string{"nvfp4", "e2m1"}, "nvfp4", 18. / 32, "fp8"},
	{[]string{"wna16", "marlin", "awq", "gptq"}, "4-bit", 4.15 / 8, "16-bit"},
	{[]string{"e4m3", "e5m2", "fp8", "float8"}, "8-bit", 1, "fp8"},
}

// formatOf returns the format of the weights that a kernel reads; ok is false if the kernel's name does not show it.
func (c *ruleContext) formatOf(kernel model.NameID) (f weightFormat, ok bool) {
	name := strings.ToLower(c.t.Name(kernel))
	for _, f := range weightFormats {
		if slices.ContainsFunc(f.words, func(w string) bool { return strings.Contains(name, w) }) {
			return f, true
		}
	}
	if p := c.nameKernelPrecision(kernel); p == precisionNames[precHalf] || p == "" && sixteen.MatchString(name) {
		return weightFormat{nil, "16-bit", 2, "16-bit"}, true
	}
	return weightFormat{}, false
}

// decodeWork adds up the kernels of one device in the steps in which all requests decode.
type decodeWork struct {
	steps           int
	window          int64                  // total length of the steps, ns
	tokens, context int64                  // median per step of StepSpan.Tokens and Context; 0 unknown
	by              map[model.Class]int64  // kernel time by class, ns
	products        map[model.NameID]int64 // time of matrix products by kernel name, ns
	rows            map[int32]int64        // time of matrix products by index in Roofline.Operators (-1 none), ns
	graph           int64                  // time of matrix products in CUDA graphs, ns
	// allReduces counts the all-reduces, reduceNS is their time, and ncclNS the part of it in NCCL or RCCL.
	allReduces       int
	reduceNS, ncclNS int64
}

// sumDecode returns the sums over the decode steps of a device, which it computes at the first call; nil without decode
// steps.
func (c *ruleContext) sumDecode(d *ruleDevice) *decodeWork {
	if c.x.Recording.Serving == "" || d.decode != nil {
		return d.decode
	}
	w := &decodeWork{by: map[model.Class]int64{}, products: map[model.NameID]int64{}, rows: map[int32]int64{}}
	var tokens, context []int64
	for k := range c.x.Steps {
		if s := &c.x.Steps[k]; !s.Dropped && s.OnlyDecode() {
			w.steps++
			w.window += s.Window.Len()
			tokens, context = append(tokens, s.Tokens), append(context, s.Context)
		}
	}
	if w.steps == 0 {
		return nil
	}
	w.tokens, w.context = analyze.Median(tokens), analyze.Median(context)
	for _, g := range d.Ops {
		op := &c.t.GPU[g]
		if op.Kind != model.Kernel || op.Launch < 0 {
			continue
		}
		k := c.x.StepAt(c.t.Host[op.Launch].Start)
		if k < 0 || c.x.Steps[k].Dropped || !c.x.Steps[k].OnlyDecode() {
			continue
		}
		class := c.x.Class(g)
		w.by[class] += op.Dur()
		w.addAllReduce(c, g, op)
		if class != model.GEMM && class != model.MoEGEMM {
			continue
		}
		w.products[op.Name] += op.Dur()
		row := int32(-1)
		if r := c.x.Roofline; r != nil && int(g) < len(r.Rows) {
			row = r.Rows[g]
		}
		w.rows[row] += op.Dur()
		if c.isGraphOp(op) {
			w.graph += op.Dur()
		}
	}
	d.decode = w
	return w
}

func (w *decodeWork) addAllReduce(c *ruleContext, g int32, op *model.GPU) {
	if !c.isComm(g) || c.x.CollectiveOf(g) != analyze.AllReduceCalls {
		return
	}
	w.allReduces++
	w.reduceNS += op.Dur()
	if isNCCL(c.t.Name(op.Name)) {
		w.ncclNS += op.Dur()
	}
}

// countBytes returns the bytes that matrix products read and write in a mean decode step, and the time of these
// products, ns per step. It includes only products with recorded shapes.
func (w *decodeWork) countBytes(c *ruleContext) (bytes float64, ns int64) {
	for row, took := range w.rows {
		if row < 0 {
			continue
		}
		// Calls with the same shapes may run in other steps too: the decode steps get a share of the bytes by time.
		o := &c.x.Roofline.Operators[row]
		share := float64(took) / float64(max(1, o.NS*c.steps))
		bytes += o.Bytes * o.Calls * float64(c.steps) * share
		ns += took
	}
	return bytes / float64(w.steps), ns / int64(w.steps)
}

// decodeBound describes the decode steps of a device whose time is bound by reading the weights.
type decodeBound struct {
	*decodeWork
	rates     roofline.Rates
	format    weightFormat
	balance   float64 // tokens per step above which arithmetic takes longer than reading the weights
	weights   int64   // time of matrix products with weights in all decode steps, ns
	attention int64   // time of attention in all decode steps, ns
}

// findDecodeBound describes the decode steps of a device if the recording proves that reading the weights bounds them;
// else it returns nil. A product with n tokens does 2n FLOPs per weight. If n is below decodeBound.balance, which
// follows from the ratio of the peak rates, reading the weights takes longer than the arithmetic (roofline model:
// Williams, Waterman, Patterson 2009).
func (c *ruleContext) findDecodeBound(d *ruleDevice) *decodeBound {
	w := c.sumDecode(d)
	if w == nil || w.tokens <= 0 {
		return nil
	}
	b := &decodeBound{decodeWork: w, weights: w.by[model.GEMM] + w.by[model.MoEGEMM], attention: w.by[model.AttentionDecode]}
	if float64(b.weights+b.attention) < leastRead*float64(w.window) || b.weights < b.attention {
		return nil
	}
	var known bool
	if b.rates, known = roofline.RatesOf(&d.props); !known {
		return nil
	}
	most := model.NameID(0)
	for kernel, ns := range w.products {
		if top := w.products[most]; ns > top || ns == top && kernel < most {
			most = kernel
		}
	}
	if b.format, known = c.formatOf(most); !known {
		return nil
	}
	b.balance = b.rates.FLOPsPerS(b.format.precision) / b.rates.BytesPerS * b.format.bytes / 2
	if b.balance <= float64(w.tokens) {
		return nil
	}
	return b
}

// findDecodeBytes reports that decode steps are bound by reading the weights. The finding claims no time: more requests
// per step do not make a single request faster, and fewer bits per weight change the results.
func (c *ruleContext) findDecodeBytes() []analyze.Found {
	for _, d := range c.devices {
		b := c.findDecodeBound(d)
		if b == nil {
			continue
		}
		step := b.window / int64(b.steps)
		what := fmt.Sprintf("decode of %s per step (%s) is bound by the bytes of the weights: their products take %.0f %% of it",
			analyze.Plural(int(b.tokens), "token", "tokens"), gpuprof.FormatNS(step), percent(b.weights, b.window))
		if experts := b.by[model.MoEGEMM]; experts > 0 {
			what += fmt.Sprintf(", %.0f %% in experts", percent(experts, b.window))
		}
		of := "tokens"
		if b.by[model.MoEGEMM] > b.by[model.GEMM] {
			of = "tokens of an expert"
		}
		f := c.newEngineFinding(claim{device: -1}, "")
		bytes, shaped := b.countBytes(c)
		if perStep := b.weights / int64(b.steps); float64(shaped) >= leastShaped*float64(perStep) {
			rate := bytes / gpuprof.Seconds(shaped)
			what += fmt.Sprintf(", and read %s at %s of the %s of the %s", gpuprof.FormatBytes(bytes), gpuprof.FormatSI(rate, "B/s"), gpuprof.FormatSI(b.rates.BytesPerS, "B/s"), b.rates.Name)
			f.Evidence["weight_bytes"], f.Evidence["bytes_per_s"] = bytes, rate
			f.Evidence["bound_percent"] = 100 * rate / b.rates.BytesPerS
		} else {
			f.Caveats = append(f.Caveats, fmt.Sprintf("how many bytes they read is unknown: the recording has the shapes of %.0f %% of their time%s", percent(shaped, perStep), b.graphText()))
		}
		f.Title = what + fmt.Sprintf("; %s weights on the %s are bound by arithmetic from about %.0f %s on", b.format.name, b.rates.Name, b.balance, of)
		f.Evidence["decode_steps"], f.Evidence["tokens_per_step"], f.Evidence["context_tokens"] = b.steps, b.tokens, b.context
		f.Evidence["products_percent"], f.Evidence["experts_percent"] = percent(b.weights, b.window), percent(b.by[model.MoEGEMM], b.window)
		f.Evidence["attention_percent"] = percent(b.attention, b.window)
		f.Evidence["balance_tokens"], f.Evidence["weights"] = b.balance, b.format.name
		if line := c.adviseEngine(ruleFewerBits); line != "" && b.format.bytes > 1 {
			f.PyTorch += "; " + line
		}
		f.Caveats = append(f.Caveats, "no time claimed: more requests per step take no time from a step, but from a token; fewer bits per weight change results")
		return []analyze.Found{f}
	}
	return nil
}

// graphText explains why shapes are missing if CUDA graphs run at least half of the matrix products' time; else "".
func (w *decodeWork) graphText() string {
	if 2*w.graph < w.by[model.GEMM]+w.by[model.MoEGEMM] {
		return ""
	}
	return ", since a graph replays them without operators"
}
