// Package fleet merges what the processes of a job left, one object each in a shared
// folder or bucket: runs of a workload and health reports. It says which GPU or node
// is slow beside its siblings, with a controlled rate of false alarms.
//
// The package reads top down: object.go is what a rank writes and its name, read.go
// gathers a bucket and finds what is missing, rule.go is the statistics, runs.go and
// bench.go bring figures to it, report.go is the document.
package fleet
