//go:build nightly && !race

package memsnap

// manyBlocks is the number of blocks of TestManyFreeBlocks, of which every second one is free at the end. An event that
// looked at all of them would exceed the test's bound two hundred times.
const manyBlocks = 200_000
