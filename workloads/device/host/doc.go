// Package host is the device that needs no GPU: it runs kernels written in Go
// on the processor, with streams that really work beside the caller.
//
// A [Stream] is a goroutine that takes work in order from a ring of 1024
// fixed-size items. Enqueueing allocates nothing and returns at once; when the
// ring is full the caller waits until an eighth of it has been worked off, as
// a GPU driver makes it wait. A kernel's range is split over the device's
// threads by a shared counter (see [device.Kernel]); the stream's own
// goroutine takes part, and kernels of several streams run side by side.
//
// Failure follows CUDA. A kernel that panics fails its stream for good: the
// work behind it is dropped, events behind it complete with the error, Sync
// returns it, and a stream that waits for such an event fails too. Enqueueing
// on a failed stream is accepted and dropped, so that where the error appears
// does not depend on who was faster. Other streams go on.
//
// A device, its streams, events and buffers are used by one goroutine;
// others may only read and write the bytes of host buffers. Kernels must not
// call the device that runs them.
package host
