//go:build race

package host

// largestCopy is small under the race detector, in bytes: the detector keeps four bytes per byte touched, two GiB in
// every run, and times under it mean nothing.
const largestCopy = 4 << 20
