// Package fleet merges the objects that the processes of a job wrote to a shared folder or bucket: runs of a workload,
// health reports, and recordings of user programs. It finds GPUs and nodes that are slower than their siblings, at a
// controlled false discovery rate, and the ranks that delay the others, with the cost.
//
// An object is the file of one rank. Siblings are GPUs of the same model and settings, or ranks that do the same work;
// a family is a set of such ranks. A norm is the distribution of a figure over siblings; a figure is off if it is
// worse than its siblings' by more than a tolerated share (slack) and more than chance explains. A line (type
// timeline) is the communication of one rank, with the rank's own time between its collectives; "by line" means
// indexed by rank in this list. A replay computes the steps again after it has replaced the own times of some lines.
//
// Top down: object.go writes and names the object of a rank. read.go reads a bucket and finds missing ranks. rule.go
// has the statistics; runs.go and bench.go supply the figures. report.go has the document; devices.go builds one for
// the devices of one machine. For programs, program.go holds a rank's recording and line.go its time between
// collectives. match.go matches the collectives of all ranks, replay.go computes the steps, and siblings.go a rank's
// excess time over its siblings. straggler.go and cause.go find stragglers and their causes.
package fleet
