// Package cuda is the device for NVIDIA GPUs. It needs nothing but the driver:
// libcuda is opened at run time, so one binary serves machines with and
// without a GPU.
//
// # Seam
//
// The [driver] is a table of the driver functions in use, filled by one of two
// implementations: purego (the default) and, under the build tag gorgonia,
// gorgonia.org/cu. Everything above the table is the same code. Symbols are
// resolved by their exported names, with the version suffix written out
// (cuMemAlloc_v2), never through cuGetProcAddress, which would answer by the
// version the caller claims: drivers keep every name they ever exported, so
// one table serves 11.0 to 13.x. What came after 11.0 is optional and its
// absence is handled where it is used.
//
// # Threads
//
// A CUDA context is current to a thread. [Open] locks the calling goroutine to
// its thread and Close unlocks it; the device is called by that goroutine. A
// call from another one is not refused, as long as no two run at once: set-up
// calls make the context current and stay on their thread until they return,
// and a launch, copy, record or wait that the driver refuses for want of a
// context is repeated once after making it current.
//
// # Kernels
//
// A PTX entry takes the parameters of [device.Kernel].Sig in order and then
// one more, int n, the number of items. The grid is ceil(n/PerBlock) blocks of
// Threads threads. A cooperative kernel has to loop over its items by the
// grid, because its grid is at most what fits on the device at once.
//
// # Failure
//
// An error inside a kernel shows at a later call and destroys the context.
// From then on the device is lost: every call returns the same error, which
// names the kernels that were in flight. Close still releases everything.
package cuda
