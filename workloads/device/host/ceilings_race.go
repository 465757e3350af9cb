//go:build race

package host

// largestCopy is small under the race detector: it keeps four bytes for each
// byte that is touched, which made two GiB of every run, and its times mean nothing.
const largestCopy = 4 << 20
