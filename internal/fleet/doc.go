// Package fleet merges the objects that the processes of a job wrote to a shared folder or bucket: runs of a
// workload, health reports, and recordings of user programs. It finds GPUs and nodes that are slower than their
// siblings, at a controlled false discovery rate, and the ranks that delay the others, with the cost.
//
// Top down: object.go writes and names the object of a rank. read.go reads a bucket and finds missing ranks.
// rule.go has the statistics; runs.go and bench.go supply the figures. report.go has the document; devices.go
// builds one for the devices of one machine. For programs, program.go holds a rank's recording and line.go its time
// between collectives. match.go matches the collectives of all ranks, replay.go computes the steps, and siblings.go
// a rank's excess time over its siblings. straggler.go and cause.go find stragglers and their causes.
package fleet
