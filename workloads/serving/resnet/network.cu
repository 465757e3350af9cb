#include "../../../workloads/device/cuda/include/device.cuh"

// The kernels of kernels.go. A convolution's integers are batch, in, out, k, stride, size, outSize, flags.

enum { FLAG_RELU = 1, FLAG_RES = 2, FLAG_NCHW = 4, FLAG_PRECISION = 8 };
enum { FP32, TF32, BF16, FP16 };

#define SIDE 64 // outputs and channels of a tile; tileSide in net.go
#define SLICE 16

// A value as an operand of a product in a precision, to nearest with ties to even.
GP_FN float net_round(int precision, float v) {
  switch (precision) {
  case TF32: {
    unsigned u = __float_as_uint(v);
    if ((u & 0x7f800000u) == 0x7f800000u) return v;
    return __uint_as_float((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
  }
  case BF16:
    return gp_from_bf16(gp_to_bf16(v));
  case FP16:
    return gp_from_fp16(gp_to_fp16(v));
  }
  return v;
}

struct net_shape {
  int batch, in, out, k, stride, size, outSize, flags;
  GP_FN int depth(const net_shape &s) { return s.in * s.k * s.k; }
  GP_FN int pixels(const net_shape &s) { return s.outSize * s.outSize; }
  GP_FN bool nchw(const net_shape &s) { return (s.flags & FLAG_NCHW) != 0; }
};

// net_tap is a place in the column of a product: (c,r,q) in nchw, (r,q,c) in nhwc.
struct net_tap {
  int c, r, q;
};
GP_FN net_tap net_tap_of(const net_shape &s, int k) {
  net_tap t;
  if (net_shape::nchw(s)) {
    t.q = k % s.k;
    t.r = k / s.k % s.k;
    t.c = k / (s.k * s.k);
  } else {
    t.c = k % s.in;
    t.q = k / s.in % s.k;
    t.r = k / (s.in * s.k);
  }
  return t;
}

// net_read is the operand of output (image, i, j) at a tap, zero beyond the border.
GP_FN float net_read(const net_shape &s, const float *x, int image, int i, int j, net_tap t) {
  int y = i * s.stride + t.r - s.k / 2, at = j * s.stride + t.q - s.k / 2;
  if (y < 0 || y >= s.size || at < 0 || at >= s.size) return 0;
  if (net_shape::nchw(s)) return x[(((long long)image * s.in + t.c) * s.size + y) * s.size + at];
  return x[(((long long)image * s.size + y) * s.size + at) * s.in + t.c];
}

// net_weight is where weight (o, k) of the tiled product is: rows [out][K] in nchw, panels [out/P][K][P] in nhwc.
GP_FN long long net_weight(const net_shape &s, int o, int k) {
  if (net_shape::nchw(s)) return (long long)o * net_shape::depth(s) + k;
  int p = s.out <= 8 ? 8 : 16;
  return ((long long)(o / p) * net_shape::depth(s) + k) * p + o % p;
}

// net_place is where output (row, o) goes, row counting pixels of all images.
GP_FN long long net_place(const net_shape &s, int row, int o) {
  if (!net_shape::nchw(s)) return (long long)row * s.out + o;
  int n = net_shape::pixels(s);
  return ((long long)(row / n) * s.out + o) * n + row % n;
}

struct net_slices {
  float x[SLICE][SIDE + 4], w[SLICE][SIDE];
};

// net_tile sums a tile of SIDE outputs by SIDE channels, 4 x 4 of them a thread, over K in order.
GP_FN void net_tile(net_slices *m, const net_shape &s, const float *x, const float *w, int row0, int o0, float (&sum)[4][4]) {
  int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16, depth = net_shape::depth(s), n = net_shape::pixels(s);
  int rows = s.batch * n, precision = s.flags / FLAG_PRECISION;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[i][j] = 0;
  for (int k0 = 0; k0 < depth; k0 += SLICE) {
    int k = k0 + tid % SLICE;
    net_tap t = net_tap_of(s, gp_min(k, depth - 1));
#pragma unroll
    for (int q = 0; q < SIDE / SLICE; q++) {
      int r = tid / SLICE + q * SLICE, row = row0 + r;
      float v = 0;
      if (row < rows && k < depth) v = net_read(s, x, row / n, row % n / s.outSize, row % s.outSize, t);
      m->x[tid % SLICE][r] = net_round(precision, v);
    }
#pragma unroll
    for (int q = 0; q < SLICE * SIDE / 256; q++) {
      int at = tid + q * 256, wk = k0 + at / SIDE, o = o0 + at % SIDE;
      m->w[at / SIDE][at % SIDE] = wk < depth && o < s.out ? w[net_weight(s, o, wk)] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int l = 0; l < SLICE; l++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = gp_fma(m->x[l][ty * 4 + i], m->w[l][tx * 4 + j], sum[i][j]);
    __syncthreads();
  }
}

GP_FN float net_finish(float v, float scale, float shift, const float *res, long long at, int flags) {
  v = gp_fma(v, scale, shift);
  if (flags & FLAG_RES) v += res[at];
  return (flags & FLAG_RELU) && v < 0.0f ? 0.0f : v; // not a number stays one
}

extern "C" __global__ void __launch_bounds__(256)
    resnet_conv(const float *__restrict__ x, const float *__restrict__ w, const float *__restrict__ scale,
                const float *__restrict__ shift, const float *__restrict__ res, float *__restrict__ out, int batch, int in,
                int channels, int k, int stride, int size, int outSize, int flags, int items) {
  __shared__ net_slices m;
  if ((int)blockIdx.x >= items) return;
  net_shape s = {batch, in, channels, k, stride, size, outSize, flags};
  int across = (channels + SIDE - 1) / SIDE, row0 = (int)blockIdx.x / across * SIDE, o0 = (int)blockIdx.x % across * SIDE;
  float sum[4][4];
  net_tile(&m, s, x, w, row0, o0, sum);
  int rows = batch * outSize * outSize, tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int row = row0 + ty * 4 + i, o = o0 + tx * 4 + j;
      if (row >= rows || o >= channels) continue;
      long long at = net_place(s, row, o);
      out[at] = net_finish(sum[i][j], scale[o], shift[o], res, at, flags);
    }
}
GPUPROF_KERNEL(resnet_conv)

// net_one sums output item by itself: item counts as its place does. w is [out][K] in nchw, [K][out] in nhwc.
GP_FN float net_one(const net_shape &s, const float *x, const float *w, int item, int *o) {
  int n = net_shape::pixels(s), depth = net_shape::depth(s), row;
  if (net_shape::nchw(s)) {
    *o = item / n % s.out;
    row = item / (n * s.out) * n + item % n;
  } else {
    *o = item % s.out;
    row = item / s.out;
  }
  float sum = 0;
  for (int k = 0; k < depth; k++) {
    float v = net_read(s, x, row / n, row % n / s.outSize, row % s.outSize, net_tap_of(s, k));
    float weight = net_shape::nchw(s) ? w[(long long)*o * depth + k] : w[(long long)k * s.out + *o];
    sum = gp_fma(net_round(s.flags / FLAG_PRECISION, v), weight, sum);
  }
  return sum;
}

extern "C" __global__ void resnet_direct(const float *__restrict__ x, const float *__restrict__ w, const float *__restrict__ scale,
                                         const float *__restrict__ shift, const float *__restrict__ res, float *__restrict__ out,
                                         int batch, int in, int channels, int k, int stride, int size, int outSize, int flags, int items) {
  int item = gp_thread(), o;
  if (item >= items) return;
  net_shape s = {batch, in, channels, k, stride, size, outSize, flags};
  float sum = net_one(s, x, w, item, &o);
  out[item] = net_finish(sum, scale[o], shift[o], res, item, flags);
}
GPUPROF_KERNEL(resnet_direct)

// A block writes the operand of one row of outputs, neighbouring threads neighbouring values.
GP_FN void net_im2col(const net_shape &s, const float *x, float *cols, int item) {
  int image = item / s.outSize, i = item % s.outSize, depth = net_shape::depth(s);
  for (int at = (int)threadIdx.x; at < s.outSize * depth; at += (int)blockDim.x) {
    if (net_shape::nchw(s)) {
      int k = at / s.outSize, j = at % s.outSize;
      cols[(((long long)image * depth + k) * s.outSize + i) * s.outSize + j] = net_read(s, x, image, i, j, net_tap_of(s, k));
    } else {
      cols[((long long)image * s.outSize + i) * s.outSize * depth + at] = net_read(s, x, image, i, at / depth, net_tap_of(s, at % depth));
    }
  }
}

extern "C" __global__ void resnet_im2col(const float *__restrict__ x, float *__restrict__ cols, int batch, int in, int channels, int k,
                                         int stride, int size, int outSize, int flags, int items) {
  if ((int)blockIdx.x >= items) return;
  net_shape s = {batch, in, channels, k, stride, size, outSize, flags};
  net_im2col(s, x, cols, (int)blockIdx.x);
}
GPUPROF_KERNEL(resnet_im2col)

GP_FN int net_channel(int i, int channels, int pixels, int flags) { return (flags & FLAG_NCHW) ? i / pixels % channels : i % channels; }

// The kernels below have an item a value.

extern "C" __global__ void resnet_norm(float *x, const float *__restrict__ scale, const float *__restrict__ shift, const float *res,
                                       int channels, int pixels, int flags, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int c = net_channel(i, channels, pixels, flags);
  x[i] = net_finish(x[i], scale[c], shift[c], res, i, flags);
}
GPUPROF_KERNEL(resnet_norm)

// The same from 16 bits.
extern "C" __global__ void resnet_widen(const unsigned short *__restrict__ y, const float *__restrict__ scale, const float *__restrict__ shift,
                                        const float *res, float *__restrict__ out, int channels, int pixels, int flags, int items) {
  int i = gp_thread();
  if (i >= items) return;
  int c = net_channel(i, channels, pixels, flags);
  float v = flags / FLAG_PRECISION == BF16 ? gp_from_bf16(y[i]) : gp_from_fp16(y[i]);
  out[i] = net_finish(v, scale[c], shift[c], res, i, flags);
}
GPUPROF_KERNEL(resnet_widen)

extern "C" __global__ void resnet_pool(const float *__restrict__ x, float *__restrict__ out, int channels, int size, int outSize,
                                       int flags, int items) {
  int item = gp_thread();
  if (item >= items) return;
  int plane = outSize * outSize, image = item / (plane * channels), c = item % channels, p = item / channels % plane, step = channels;
  const float *from = x + (long long)image * size * size * channels + c;
  if (flags & FLAG_NCHW) {
    c = item / plane % channels;
    p = item % plane;
    from = x + ((long long)image * channels + c) * size * size;
    step = 1;
  }
  int i = p / outSize, j = p % outSize;
  float best = __uint_as_float(0xff800000u);
  for (int y = gp_max(2 * i - 1, 0); y <= gp_min(2 * i + 1, size - 1); y++)
    for (int q = gp_max(2 * j - 1, 0); q <= gp_min(2 * j + 1, size - 1); q++) {
      float v = from[(long long)(y * size + q) * step];
      if (!(v <= best)) best = v; // not a number stays one
    }
  out[item] = best;
}
GPUPROF_KERNEL(resnet_pool)

extern "C" __global__ void resnet_mean(const float *__restrict__ x, float *__restrict__ out, int channels, int pixels, int flags,
                                       int items) {
  int item = gp_thread();
  if (item >= items) return;
  bool nchw = (flags & FLAG_NCHW) != 0;
  const float *from = x + (nchw ? (long long)item * pixels : (long long)(item / channels) * channels * pixels + item % channels);
  float sum = 0.0f;
  for (int p = 0; p < pixels; p++) sum += from[(long long)p * (nchw ? 1 : channels)];
  out[item] = sum / (float)pixels;
}
GPUPROF_KERNEL(resnet_mean)

// net_sample is sample of image.go: pixel i lies at share f of the way from lo to hi.
struct net_sample {
  int lo, hi;
  float f;
};
GP_FN net_sample net_sample_of(int i, int source, int resized) {
  int den = 2 * resized, at = (2 * i + 1) * source - resized;
  if (at < 0) return {0, 0, 0.0f};
  int lo = at / den;
  return {gp_min(lo, source - 1), gp_min(lo + 1, source - 1), (float)(at - lo * den) / (float)den};
}

// A block prepares one row of a crop.
extern "C" __global__ void resnet_prepare(const unsigned char *__restrict__ images, float *__restrict__ out, int source, int size,
                                          int resized, int crop, int flags, int items) {
  // 1/(255 deviation) and mean/deviation of image.go.
  const float factor[3] = {1.0f / (255.0f * .229f), 1.0f / (255.0f * .224f), 1.0f / (255.0f * .225f)};
  const float shift[3] = {.485f / .229f, .456f / .224f, .406f / .225f};
  int item = (int)blockIdx.x;
  if (item >= items) return;
  int image = item / size, i = item % size;
  net_sample y = net_sample_of(i + crop, source, resized);
  const unsigned char *from = images + (long long)image * 3 * source * source;
  for (int at = (int)threadIdx.x; at < 3 * size; at += (int)blockDim.x) {
    int j = at / 3, c = at % 3;
    net_sample x = net_sample_of(j + crop, source, resized);
    float a = from[(y.lo * source + x.lo) * 3 + c], b = from[(y.lo * source + x.hi) * 3 + c];
    float p = from[(y.hi * source + x.lo) * 3 + c], q = from[(y.hi * source + x.hi) * 3 + c];
    a = gp_fma(x.f, b - a, a);
    p = gp_fma(x.f, q - p, p);
    float v = gp_fma(gp_fma(y.f, p - a, a), factor[c], -shift[c]);
    long long to = (flags & FLAG_NCHW) ? (((long long)image * 3 + c) * size + i) * size + j : (((long long)image * size + i) * size + j) * 3 + c;
    out[to] = v;
  }
}
GPUPROF_KERNEL(resnet_prepare)
