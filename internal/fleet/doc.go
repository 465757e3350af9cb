// Package fleet merges the objects that the processes of a job wrote to a shared folder or bucket: runs of a
// workload, health reports, and recordings of the user's programs. It finds GPUs and nodes that are slower than their
// siblings, at a controlled false discovery rate, and the ranks that delay the others, with their cost.
//
// Top down: object.go writes and names the object of a rank. read.go gathers a bucket and finds missing ranks.
// rule.go has the statistics; runs.go and bench.go supply the figures. report.go is the document; devices.go makes
// one of devices of one machine that were measured together. For programs, program.go is a rank's recording and
// line.go its time between collectives. match.go matches the collectives of all ranks, replay.go computes the steps,
// siblings.go the time that a rank exceeds its siblings by. straggler.go and cause.go name stragglers and their
// causes.
package fleet
