// Package health measures whether GPUs are as fast as they should be: the work
// of gpuprof doctor --bench, usable as a scheduler's node check.
//
// Run measures any number of devices: one after the other what they share
// (memory, links, the CPU that launches), then all of them together under load,
// because heat and power are shared, too. Judge then compares: siblings in the
// same machine first, the ranges shipped with gpuprof second. A rate more than
// 5 % below the median of a device's siblings is off.
//
// What is measured, by name and unit:
//
//	copy            B/s     device to device, bytes read plus bytes written
//	h2d_pinned      B/s     host to device, and back, from and to both kinds of host memory
//	h2d_pageable    B/s
//	d2h_pinned      B/s
//	d2h_pageable    B/s
//	gemm_fp32       flop/s  square product by cuBLAS, 2 n^3 flops
//	gemm_tf32       flop/s
//	gemm_bf16       flop/s
//	gemm_fp32_own   flop/s  by gpuprof's own kernel, where cuBLAS is missing
//	launch          s       an empty kernel, from the call until the host knows that it is done
//	launch_interval s       between empty kernels launched back to back, on the device
//	event_pair      s       between two events with nothing between them
//	sustained       flop/s  the fastest of the products, second half of the load
//	sm_clock        Hz      under load, median of the second half
//	power           W       likewise, mean
//	temperature     C       likewise, maximum
//
// Rates and times are the best of several tries: what disturbs a try makes it
// slower, never faster. Nothing of it is a figure about a simulated device:
// Judge refuses those.
package health
