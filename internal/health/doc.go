// Package health judges GPUs for gpuprof doctor: whether a device failed or is about to fail (NVML, ECC, kernel log),
// and whether it is as fast as expected. Inputs are the reports of those sources and the figures of
// workloads/devicebench; the output is a report with a verdict, and an exit code for a scheduler's node check. Judge
// compares a device with its siblings in the machine first: a rate more than 5 % below their median deviates. Ranges
// shipped with gpuprof come second. It refuses figures of a simulated device, and opens no device itself.
package health
