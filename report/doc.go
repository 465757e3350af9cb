// Package report has no code: its subfolders render runs, one format each, and its tests check all by the same rules.
package report
