//go:build nightly

package stats_test

// coverageSamples bounds the samples that a case of TestWithinCoverage judges: the night draws twice as many as the day.
const coverageSamples = 600_000
