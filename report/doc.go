// Package report has no code: its subfolders render runs, one format each, as pure functions of the runs. Its tests
// check all of these formats by the same rules.
package report
