// Package report holds nothing itself: its folders render runs, each one
// format, as pure functions of them. Its tests hold all of them to the same
// rules.
package report
