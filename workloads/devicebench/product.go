package devicebench

import (
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	// tile is the side of a tile of the device's own kernel; sides of matrices are multiples of it.
	tile = 128
	// A product that takes longEnough makes the time of a launch and the resolution of events negligible.
	longEnough = 5e-3 // s
)

// product is a square matrix product ready to launch.
type product struct {
	kind
	f     device.Func
	items int
	args  device.Args
	flops float64
	s     float64 // best time in seconds
}

// kind is one kind of matrix product.
type kind struct {
	metric string
	kernel *device.Kernel
	bytes  int // bytes per element of an operand
}

// libraryKinds are the vendor library's products, out[n, N] = a[n, K] b[K, N]. Parameters: a, b, out, K, N, scale.
func libraryKinds() []kind {
	of := func(metric string, bytes int) kind {
		return kind{metric, &device.Kernel{Name: metric, Sig: "bbbiif", Lib: metric}, bytes}
	}
	return []kind{of("gemm_fp32", 4), of("gemm_tf32", 4), of("gemm_bf16", 2)}
}

// kernelKind is the float32 product c = a b by the device's own kernel, an item per tile. Devices without PTX run Host.
func kernelKind() kind {
	return kind{"gemm_fp32_own", &device.Kernel{Name: "ceiling_product", Sig: "bbbi", Host: hostProduct}, 4}
}

func hostProduct(a *device.Args, lo, hi int) {
	c, x, y, size := a.Floats(0), a.Floats(1), a.Floats(2), a.Int(3)
	across := size / tile
	for t := lo; t < hi; t++ {
		row0, col0 := t/across*tile, t%across*tile
		for i := row0; i < row0+tile; i++ {
			out := c[i*size+col0 : i*size+col0+tile]
			clear(out)
			for k := range size {
				v := x[i*size+k]
				row := y[k*size+col0 : k*size+col0+tile]
				for j, w := range row {
					out[j] += v * w
				}
			}
		}
	}
}

// measureProducts measures the vendor library's matrix products, and the device's own kernel if the library has no fp32
// product. It prepares the fastest for the sustained-load test (runLoad).
func (b *bench) measureProducts() error {
	base := b.mark()
	library := false
	for _, k := range libraryKinds() {
		f, err := b.dev.Load(k.kernel)
		if err != nil {
			b.card.SetUnknown(k.metric, oneLine(err))
			continue
		}
		if err := b.measureProduct(k, f); err != nil {
			if b.ctx.Err() != nil || b.stream.Sync() != nil {
				return err // the device failed, not just the library
			}
			b.card.SetUnknown(k.metric, oneLine(err))
			continue
		}
		library = library || k.metric == "gemm_fp32"
	}
	if !library {
		k := kernelKind()
		f, err := b.dev.Load(k.kernel)
		if err != nil {
			return err
		}
		if err := b.measureProduct(k, f); err != nil {
			return err
		}
	}
	// Allocate the load's matrices again, because the sides differ between kinds.
	if err := b.release(base); err != nil {
		return err
	}
	return b.prepareLoad()
}

// measureProduct finds a size at which the product takes long enough, and times the product.
func (b *bench) measureProduct(k kind, f device.Func) error {
	mark := b.mark()
	for size := min(2*tile, b.o.Product); ; size = min(2*size, b.o.Product) {
		p, err := b.newProduct(k, f, size)
		if err != nil {
			return errors.Join(err, b.release(mark))
		}
		if p.s, err = b.leastTime(func() error { return b.stream.Launch(p.f, p.items, &p.args) }); err != nil {
			return errors.Join(err, b.release(mark))
		}
		grown := 3 * k.bytes * 4 * size * size
		if p.s < longEnough && size < b.o.Product && int64(grown) < b.dev.Memory().Available/2 {
			if err := b.release(mark); err != nil {
				return err
			}
			continue
		}
		b.card.Set(k.metric, p.flops/p.s)
		if b.load == nil || p.flops/p.s > b.load.flops/b.load.s {
			b.load = p
		}
		return b.release(mark)
	}
}

// newProduct allocates and fills the matrices of a product.
func (b *bench) newProduct(k kind, f device.Func, size int) (*product, error) {
	n := float64(size)
	p := &product{kind: k, f: f, items: size, flops: 2 * n * n * n}
	x, err := b.newMatrix(size * size * k.bytes)
	if err != nil {
		return nil, err
	}
	y, err := b.newMatrix(size * size * k.bytes)
	if err != nil {
		return nil, err
	}
	out, err := b.allocate(4*size*size, device.OnDevice)
	if err != nil {
		return nil, err
	}
	if k.kernel.Lib == "" {
		p.items = (size / tile) * (size / tile)
		p.args.SetBuf(0, out)
		p.args.SetBuf(1, x)
		p.args.SetBuf(2, y)
		p.args.SetInt(3, size)
		return p, nil
	}
	p.args.SetBuf(0, x)
	p.args.SetBuf(1, y)
	p.args.SetBuf(2, out)
	p.args.SetInt(3, size)
	p.args.SetInt(4, size)
	p.args.SetF32(5, 1)
	return p, nil
}

// fillBytes is the size of the random block that is repeated to fill a matrix.
const fillBytes = 4 << 20

func (b *bench) newMatrix(bytes int) (device.Buffer, error) {
	m, err := b.allocate(bytes, device.OnDevice)
	if err != nil {
		return nil, err
	}
	piece, err := b.dev.Alloc(min(fillBytes, bytes), device.Pinned)
	if err != nil {
		return nil, err
	}
	fillRandom(piece.Bytes())
	for at := 0; at < bytes && err == nil; at += piece.Len() {
		err = b.stream.Copy(m, at, piece, 0, min(piece.Len(), bytes-at))
	}
	return m, errors.Join(err, b.stream.Sync(), piece.Free())
}

// prepareLoad allocates the matrices of the fastest product again.
func (b *bench) prepareLoad() error {
	if b.load == nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "no product could be measured").WithFix("see the reasons beside the figures")
	}
	p, err := b.newProduct(b.load.kind, b.load.f, b.load.args.Int(3))
	if err != nil {
		return fmt.Errorf("preparing the load: %w", err)
	}
	p.s = b.load.s
	b.load = p
	return nil
}
