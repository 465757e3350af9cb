//go:build !race

package host

// largestCopy bounds each buffer of the copy ceiling if Options sets no bound, in bytes.
const largestCopy = 256 << 20
