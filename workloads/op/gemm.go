package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed gemm.ptx.zst
var gemmPTX string

// Gemm is a dense layer applied to every edge. Act names the activation phi ("none" for a plain product),
// Normalisation ("exact" or "e3nn") its constant c:
//
//	a [E,K], b [K,N] -> out [E,N] = c*phi(Scale * a b)
type Gemm struct {
	K, N               int
	Scale              float32
	Act, Normalisation string
	// Precision selects the rounding of the operands, to nearest even: "fp32" or empty (none), "tf32" (10 bits of
	// mantissa), "bf16", "fp16" or "tf32x3". The last reaches the accuracy of fp32 with three tf32 products (see packing).
	// Products are added in float32, and out is float32.
	Precision string
	// Library selects the vendor's product: "auto" or empty if the device has it, "on" always, "off" never.
	Library string
	// Tile is the side of the square of out that one CUDA block of our own kernel computes: 64, 128 or 0 (automatic).
	Tile int
	// Padding is the number of columns of out that no later operation reads; Bound.Minimum does not count them.
	Padding int
	// Grain is the minimum number of rows per goroutine on the host device; 0 means 8.
	Grain int
}

// Precisions of a matrix product.
const (
	FP32   = "fp32"
	TF32   = "tf32"
	BF16   = "bf16"
	FP16   = "fp16"
	TF32x3 = "tf32x3"
)

// Our own kernel: one item is one row on the host and one tile on CUDA.
var (
	gemmKernel   = device.Typed[gemmArgs](device.Kernel{Name: "gemm", Host: gemmHost, Grain: 8, PTX: gemmPTX, Threads: 256, PerBlock: 1})
	gemm64Kernel = device.Typed[gemm64Args](device.Kernel{Name: "gemm", Host: gemmHost, Grain: 8, PTX: gemmPTX, Entry: "gemm64", Threads: 64, PerBlock: 1})
)

// gemmLibKernels are the vendor's products, out = scale * a b, by precision; one item is one row. For bf16 and fp16 a
// and b are 16 bits wide. If the library is missing, the PTX computes the product with the same rounding. An
// activation follows as a separate launch, in place.
var (
	gemmLibKernels = map[string]*device.Kernel{
		FP32: libraryProduct(FP32, gemmFP32Host),
		TF32: libraryProduct(TF32, gemmTF32Host),
		BF16: libraryProduct(BF16, gemmBF16Host),
		FP16: libraryProduct(FP16, gemmFP16Host),
	}
	actInplaceKernel = device.Typed[actInplaceArgs](device.Kernel{Name: "act_inplace", Host: actInplaceHost, Grain: 1 << 12, PTX: gemmPTX, Threads: 256, PerBlock: 1024})
)

func libraryProduct(precision string, host func(*device.Args, int, int)) *device.Kernel {
	k := device.Typed[gemmLibFp32Args](device.Kernel{
		Name: "gemm_" + precision, Host: host, Grain: 8, Lib: "gemm_" + precision,
		PTX: gemmPTX, Entry: "gemm_lib_" + precision, Threads: 256, PerBlock: 128,
	})
	return &k
}

// Bind binds the operation for up to edgeCap rows. It launches either our own kernel or the vendor's product. Before
// the vendor's product it packs the operands if the precision needs it, and after it applies the activation if there is
// one.
func (g Gemm) Bind(dev device.Device, a, b, out device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "gemm", edgeCap)
	k.b.minimum = k.addGemm(g, a, b, out)
	return k.finishBinding()
}

func (g Gemm) precisionName() string {
	if g.Precision == "" {
		return FP32
	}
	return g.Precision
}

// libraryKernel returns the vendor's product for a precision, nil for an unknown precision.
func libraryKernel(precision string) *device.Kernel {
	if precision == TF32x3 {
		precision = TF32
	}
	return gemmLibKernels[precision]
}

// Check returns the reason why the product cannot be bound to dev, or nil.
func (g Gemm) Check(dev device.Device) error {
	if _, err := g.needsVendor(loadLibraries(dev)); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "binding gemm: %w", err)
	}
	return nil
}

// UsesVendor reports whether Bind on dev calls the vendor's library.
func (g Gemm) UsesVendor(dev device.Device) bool {
	info := loadLibraries(dev)
	vendor, err := g.needsVendor(info)
	return vendor && err == nil && info.Facts["cublas"] != ""
}

// needsVendor reports whether to launch the vendor's product instead of our own kernel; if the library is missing, our
// PTX replaces it with the same rounding. It returns an error if neither can be launched.
func (g Gemm) needsVendor(info device.Info) (bool, error) {
	if g.Precision != "" && libraryKernel(g.Precision) == nil {
		return false, gpuprof.Errorf(nil, "unknown precision %q", g.Precision).WithFix("use fp32, tf32, tf32x3, bf16 or fp16")
	}
	if g.Tile != 0 && g.Tile != 64 && g.Tile != 128 {
		return false, gpuprof.Errorf(nil, "unknown tile %d", g.Tile).WithFix("use 64, 128 or 0")
	}
	there := info.Facts["cublas"] != ""
	rounded := g.Precision != "" && g.Precision != FP32
	switch g.Library {
	case "", "auto":
		return there || rounded, nil
	case "on":
		if !there {
			return false, gpuprof.Errorf(nil, "the vendor's library was not found on %s", info.Name).WithFix("use library=auto or off")
		}
		return true, nil
	case "off":
		if rounded && there {
			return false, gpuprof.Errorf(nil, "precision %s is the vendor's library's", g.Precision).WithFix("use library=auto, or fp32")
		}
		return rounded, nil
	}
	return false, gpuprof.Errorf(nil, "unknown library %q", g.Library).WithFix("use auto, on or off")
}

// addGemm appends the launches of g and returns the minimum cost.
func (k *binder) addGemm(g Gemm, a, b, out device.Buffer) rate {
	k.checkPositive("K", g.K)
	k.checkPositive("N", g.N)
	act, c, err := findActivation(g.Act, g.Normalisation)
	k.failOn(err)
	vendor, err := g.needsVendor(loadLibraries(k.dev))
	k.failOn(err)
	e := int64(k.b.capacity)
	k.checkBuffer("a", a, e*int64(g.K))
	k.checkBuffer("b", b, int64(g.K)*int64(g.N))
	k.checkBuffer("out", out, e*int64(g.N))
	cost := k.gemmCost(g, act, vendor)
	if vendor {
		k.gemmVendor(g, a, b, out, act, float32(c), libraryKernel(g.precisionName()))
	} else {
		kernel, work := k.gemmShape(g)
		k.addLaunch(kernel, work, cost, gemmArgs{
			a: a, b: b, out: out, rows: edgeCount, K: g.K, N: g.N, act: act.id, scale: g.Scale, c: float32(c),
		})
	}
	g.N -= g.Padding
	return k.gemmCost(g, act, vendor)
}

func (k *binder) gemmCost(g Gemm, act activation, vendor bool) rate {
	epilogue := 0
	if act.id != actNone {
		epilogue = g.N * (act.flops + 1)
	}
	// cost counts the scale as one operation per element of the matrix a, which the kernel multiplies by it.
	cost := rate{fixed: Moved(0, g.K*g.N, 0), perEdge: Moved(g.K+2*g.K*g.N+epilogue, g.K, g.N)}
	if vendor && loadLibraries(k.dev).Facts["cublas"] != "" { // without cuBLAS the PTX replacement computes in fp32
		cost.perEdge = costInPrecision(cost.perEdge, g.precisionName(), int64(2*g.K*g.N))
	}
	return cost
}

// costInPrecision returns c with the given number of its flops counted in the given precision. TF32x3 counts them three
// times.
func costInPrecision(c gpuprof.Cost, precision string, flops int64) gpuprof.Cost {
	if precision != TF32x3 {
		return c.In(precision, flops)
	}
	c.Flops += 2 * flops
	return c.In(TF32, 3*flops)
}

// gemmShape returns our own kernel, with the tile size chosen, and its items: rows on the host, tiles on CUDA.
func (k *binder) gemmShape(g Gemm) (*device.Kernel, items) {
	if !k.isTiled() {
		kernel := gemmKernel
		if g.Grain > 0 {
			kernel.Grain = g.Grain
		}
		return &kernel, items{perEdge: 1}
	}
	tile := g.Tile
	if tile == 0 {
		// Small tiles, if large tiles would give less than two waves of blocks and leave multiprocessors idle.
		tile = 128
		if ceilDiv(k.b.capacity, tile)*ceilDiv(g.N, tile) < 4*k.dev.Info().Cores {
			tile = 64
		}
	}
	work := items{perEdge: 1, per: tile, times: ceilDiv(g.N, tile)}
	if tile == 64 {
		return &gemm64Kernel, work
	}
	return &gemmKernel, work
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func (k *binder) gemmVendor(g Gemm, a, b, out device.Buffer, act activation, c float32, vendor *device.Kernel) {
	p := packingOf(g.Precision, g.K)
	if p.form != packPlain {
		a, b = k.packLeft(p, a, g.K), k.packRight(p, b, g.K, g.N)
	}
	k.addVendorProduct(g, p, a, b, out, vendor)
	if act.id != actNone {
		k.addLaunch(&actInplaceKernel, items{perEdge: g.N}, rate{perEdge: Moved(g.N*(act.flops+1), g.N, g.N)}, actInplaceArgs{
			x: out, count: itemCount, act: act.id, c: c,
		})
	}
}

func (k *binder) addVendorProduct(g Gemm, p packing, a, b, out device.Buffer, vendor *device.Kernel) {
	depth := p.productDepth()
	cost := rate{fixed: gpuprof.Cost{BytesRead: int64(depth*g.N) * p.bytes},
		perEdge: gpuprof.Cost{Flops: int64(2*depth*g.N + g.N), BytesRead: int64(depth) * p.bytes, BytesWritten: int64(g.N) * floatBytes}}
	k.addLaunch(vendor, items{perEdge: 1}, cost, gemmLibFp32Args{
		a: a, b: b, out: out, K: depth, N: g.N, scale: g.Scale,
	})
}
