// Package bits records what the steps of every workload leave in memory, as hashes: a refactoring that shall change no
// result changes no hash. It has tests only.
package bits
