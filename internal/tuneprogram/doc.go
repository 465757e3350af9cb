// Package tuneprogram finds settings that make the user's program faster, without changing its code. It runs fresh
// processes with and without a setting in turns, and recommends the settings that a statistical gate (compare.Gate)
// confirms and that keep the training the same.
//
// The input is a command, the output a tuning result. The recorder's sitecustomize loads the hook (hook/*.py) into
// PyTorch programs. Other programs are timed as whole processes, or by the benchmark result that they print.
package tuneprogram
