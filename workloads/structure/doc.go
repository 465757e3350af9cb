// Package structure holds crystals and molecules: built-in ones, readers for extended XYZ and VASP POSCAR/CONTCAR
// files, sampling grids over the cell, and a neighbour search with periodic images. Lengths are in angstrom. Lattice
// vectors are the rows of a 3x3 matrix, so a fractional position f is the cartesian f·Lattice.
package structure
