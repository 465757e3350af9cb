// Package health judges GPUs: whether a device failed or is about to (NVML, ECC,
// kernel log), and whether it is as fast as it should be, the work of gpuprof doctor.
// In come the answers of those sources and the figures of workloads/devicebench, out
// goes a report with verdicts and exit codes for a scheduler's node check. Judge
// compares siblings in the same machine first, the ranges shipped with gpuprof
// second: a rate more than 5 % below the median of a device's siblings is off. It
// refuses figures of a simulated device. It opens no device itself.
package health
