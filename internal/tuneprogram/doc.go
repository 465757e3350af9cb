// Package tuneprogram applies settings to the user's own program from outside, measures each against the unchanged
// program, in fresh processes in turns, and recommends the settings that a gate confirms and that leave the training
// the same.
//
// A command comes in; a tuning result goes out. The hook (hook/*.py) is loaded into PyTorch programs by the recorder's
// sitecustomize. Programs of another kind are timed as whole processes, or by the benchmark result that they print.
package tuneprogram
