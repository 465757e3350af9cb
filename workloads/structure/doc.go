// Package structure holds crystals and molecules: built-in ones, readers for
// extended XYZ and VASP POSCAR/CONTCAR files, sampling grids over the cell, and
// a periodic neighbour search fast enough to be a stage of a measured pipeline.
//
// Lengths are angstrom throughout. Lattice vectors are the rows of a 3x3
// matrix, so a fractional position f is the cartesian f·Lattice.
package structure
