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
	// leastRead is the share of the decode steps in products of weights and attention from which on their bytes bound
	// decode.
	leastRead = 0.5
	// leastShaped is the share of the time in products of weights with recorded shapes from which on their bytes count.
	leastShaped = 0.9
)

// weightFormat is the storage of a weight, by words in the name of the kernel that reads it, lower case.
type weightFormat struct {
	words     []string
	name      string
	bytes     float64 // of a weight, with its scales
	precision string  // of the arithmetic
}

// weightFormats are tried in order. Bytes of the microscaling formats: OCP MX specification 1.0, a scale of 8 bits per
// 32 values; NVFP4 has one per 16; of 4-bit integers the usual group of 128 with a scale and a zero.
var weightFormats = []weightFormat{
	{[]string{"bf16xmxfp4", "fp16xmxfp4"}, "mxfp4", 17. / 32, "16-bit"},
	{[]string{"mxfp4", "mxe2m1"}, "mxfp4", 17. / 32, "fp8"},
	{[]string{"nvfp4", "e2m1"}, "nvfp4", 18. / 32, "fp8"},
	{[]string{"wna16", "marlin", "awq", "gptq"}, "4-bit", 4.15 / 8, "16-bit"},
	{[]string{"e4m3", "e5m2", "fp8", "float8"}, "8-bit", 1, "fp8"},
}

// formatOf returns the storage of the weights that a kernel reads; ok is false where its name does not show it.
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

// decodeWork adds up the steps that only decode, on one device.
type decodeWork struct {
	steps           int
	window          int64                 // of those steps, ns
	tokens, context int64                 // of a step, median; 0 unknown
	by              map[model.Class]int64 // kernels, ns
	products        map[model.NameID]int64
	rows            map[int32]int64 // products by row of the roofline, -1 none
	graph           int64           // products that a graph replays, ns
}

// sumDecode adds up the decode steps of a device; nil without any.
func (c *ruleContext) sumDecode(d *ruleDevice) *decodeWork {
	if c.x.Recording.Serving == "" {
		return nil
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
	return w
}

// countBytes returns the bytes that the products of a mean decode step read and write, and the time of those whose
// shapes are recorded, ns per step.
func (w *decodeWork) countBytes(c *ruleContext) (bytes float64, ns int64) {
	for row, took := range w.rows {
		if row < 0 {
			continue
		}
		// an operator with the same shapes may run in other steps too: its bytes are divided by time
		o := &c.x.Roofline.Operators[row]
		share := float64(took) / float64(max(1, o.NS*c.steps))
		bytes += o.Bytes * o.Calls * float64(c.steps) * share
		ns += took
	}
	return bytes / float64(w.steps), ns / int64(w.steps)
}

// decodeBound is decode whose bytes bound it, with the rates of its device.
type decodeBound struct {
	*decodeWork
	rates     roofline.Rates
	format    weightFormat
	balance   float64 // tokens from which on the arithmetic takes longer than the bytes
	weights   int64   // products of weights, ns of all steps
	attention int64
}

// findDecodeBound returns the decode of a device that its bytes bound; nil for others, and where the recording does not
// prove it. A product of n rows does 2n FLOPs for each weight: below the ratio of the device's peak rates, its bytes
// take longer than its arithmetic (design of rooflines: Williams, Waterman, Patterson 2009).
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

// findDecodeBytes: decode that the bytes of its weights bound. It claims nothing: more requests per step make none of
// them faster, and fewer bits change results.
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

// graphText gives the reason for missing shapes, where a graph replays the products.
func (w *decodeWork) graphText() string {
	if 2*w.graph < w.by[model.GEMM]+w.by[model.MoEGEMM] {
		return ""
	}
	return ", since a graph replays them without operators"
}
