// Package fleet merges what the processes of a job left, one object each in a shared
// folder or bucket: runs of a workload, health reports, and programs of the user's. It
// says which GPU or node is slow beside its siblings, with a controlled rate of false
// alarms, and which rank the others wait for, at what cost.
//
// The package reads top down: object.go is what a rank writes and its name, read.go
// gathers a bucket and finds what is missing, rule.go is the statistics, runs.go and
// bench.go bring figures to it, report.go is the document, devices.go makes one of devices of
// one machine that were measured together. Of programs: program.go is
// what a rank leaves, line.go its time between collectives, match.go finds the
// collectives of all ranks in each other, replay.go works out the steps, siblings.go what
// a rank takes more than others, straggler.go and cause.go what is claimed of it.
package fleet
