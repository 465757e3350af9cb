// Package tuneprogram finds settings that make the user's program faster, without changing its code. It runs fresh
// processes with and without a setting in turns, and recommends the settings that a statistical gate (compare.Gate)
// confirms and that keep the training the same.
//
// A setting is one value of a knob, a set the settings that are applied together, and a row the search's state of one
// setting. A plain run is a run of the unchanged program; a pair is two neighbouring runs, with and without a set. The
// screening measures each setting alone; the confirmation decides from fresh pairs. The losses are the values that the
// program passes to backward.
//
// The input is a command, the output a tuning result. The recorder's sitecustomize loads the hook (hook/*.py) into
// PyTorch programs. Other programs are timed as whole processes, or by the benchmark result that they print.
package tuneprogram
