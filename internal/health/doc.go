// Package health judges GPUs for gpuprof doctor: whether a device failed or is about to fail (NVML, ECC, kernel log),
// and whether it is as fast as expected. Its inputs are the answers of those sources and the figures of
// workloads/devicebench; its output is a report with a verdict and an exit code for a scheduler's node check. Judge
// compares siblings in the same machine first, and the ranges shipped with gpuprof second: a rate more than 5 % below
// the median of a device's siblings is off. It refuses figures of a simulated device. It opens no device itself.
package health
