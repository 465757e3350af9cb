//go:build !nightly && !race

package memsnap

// manyBlocks is the number of blocks of TestManyFreeBlocks, of which every second one is free at the end. An event that
// looked at all of them would exceed the test's bound forty times.
const manyBlocks = 40_000
