//go:build race

package kineto

// RaceDetector says that reading takes ten times as long: what is read again and again is then
// smaller, and make test reads all of it without.
const RaceDetector = true
