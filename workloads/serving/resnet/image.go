package resnet

import "math/rand/v2"

// Period is the number of different images; image i+Period equals image i.
const Period = 64

// Image draws image i as bytes [source,source,3]: a linear gradient per channel, so that neighbouring pixels are
// similar, and noise.
func Image(source int, seed uint64, i int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0x696d616765<<8|uint64(i%Period)))
	out := make([]byte, 3*source*source)
	for ch := range 3 {
		base, dx, dy := 64+128*rng.Float64(), rng.Float64()-0.5, rng.Float64()-0.5
		for y := range source {
			for x := range source {
				v := base + 96*dx*float64(2*x-source)/float64(source) + 96*dy*float64(2*y-source)/float64(source) + 64*(rng.Float64()-0.5)
				out[(y*source+x)*3+ch] = byte(min(max(v, 0), 255))
			}
		}
	}
	return out
}

// Means and deviations of the normalisation, by color channel.
var (
	channelMean      = [3]float64{.485, .456, .406}
	channelDeviation = [3]float64{.229, .224, .225}
)

// sampleAt returns the position in the source of pixel i of the crop, which is (i+0.5) source/resized - 0.5. It is
// between pixels lo and hi, at the fraction num/den. The computation is in integers, so nothing rounds.
func sampleAt(i, source, resized int) (lo, hi, num, den int) {
	den = 2 * resized
	at := (2*i+1)*source - resized
	lo = at / den
	if at < 0 {
		return 0, 0, 0, den
	}
	num = at - lo*den
	hi = min(lo+1, source-1)
	return min(lo, source-1), hi, num, den
}

// Prepare resizes, crops and normalises one image [source,source,3] on the host. dst is [image,image,3] in layout
// nhwc, [3,image,image] in nchw. It allocates nothing.
func (s Shape) Prepare(dst []float32, image []byte, layout string) {
	prepareRows(dst, image, s.Source, s.Image, s.resizedSide(), s.cropOffset(), layout != NCHW, 0, s.Image)
}

func prepareRows(dst []float32, image []byte, source, size, resized, crop int, nhwc bool, lo, hi int) {
	var factor, shift [3]float32
	for c := range 3 {
		factor[c] = float32(1 / (255 * channelDeviation[c]))
		shift[c] = float32(channelMean[c] / channelDeviation[c])
	}
	step, plane := 3, 1 // strides between pixels and between channels
	if !nhwc {
		step, plane = 1, size*size
	}
	for i := lo; i < hi; i++ {
		y0, y1, num, den := sampleAt(i+crop, source, resized)
		fy := float32(num) / float32(den)
		up, down := image[y0*source*3:][:source*3], image[y1*source*3:][:source*3]
		for j := range size {
			x0, x1, num, den := sampleAt(j+crop, source, resized)
			fx := float32(num) / float32(den)
			for c := range 3 {
				a, b := float32(up[x0*3+c]), float32(up[x1*3+c])
				p, q := float32(down[x0*3+c]), float32(down[x1*3+c])
				a += fx * (b - a)
				p += fx * (q - p)
				dst[(i*size+j)*step+c*plane] = (a+fy*(p-a))*factor[c] - shift[c]
			}
		}
	}
}
