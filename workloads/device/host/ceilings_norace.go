//go:build !race

package host

// largestCopy is the default of Options.LargestCopy in bytes.
const largestCopy = 256 << 20
