// Package cuda is the device for NVIDIA GPUs. It needs only the driver: it opens libcuda at run time, so one binary
// serves machines with and without a GPU.
//
// # Binding
//
// The [driver] is a table of the driver functions in use. One of two bindings fills it: purego (the default) or, under
// the build tag gorgonia, gorgonia.org/cu. All other code is the same for both. Symbols are resolved by their exported
// names with the version suffix (cuMemAlloc_v2). cuGetProcAddress is not used, since its answer depends on the version
// that the caller claims. Drivers keep every name they ever exported, so one table serves 11.0 to 13.x. Functions
// newer than 11.0 are optional.
//
// # Threads
//
// A CUDA context is current to a thread. [Open] locks the calling goroutine to its thread, Close unlocks it, and this
// goroutine calls the device. Other goroutines may call it too, if no two calls run at once: set-up calls make the
// context current and stay on their thread until they return; a launch, copy, record or wait that the driver refuses
// for lack of a context is repeated once after making it current.
//
// # Kernels
//
// A PTX entry takes the parameters of [device.Kernel].Sig in order and then int n, the number of items. The grid is
// ceil(n/PerBlock) blocks of Threads threads. A cooperative kernel must loop over its items by the grid, because its
// grid is limited to the blocks that fit on the device at once.
//
// # Failure
//
// An error inside a kernel appears at a later call and destroys the context. From then on the device is lost: every
// call returns the same error, which names the kernels that were in flight. Close still releases everything.
package cuda
