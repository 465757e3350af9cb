// Package sim builds and drives a simulated CUDA driver, for tests only.
//
// The driver is a shared library that g++ builds on the machine of the tests. It exports the driver functions that
// gpuprof uses and runs the same .cu files on the CPU. Device threads are fibers, between which barriers and shuffles
// switch. A stream is an OS thread that works in order while the caller continues. The same folder has a simulated
// cuBLAS and cuDNN. gpuprof's real loader opens the library, so a test without a GPU covers everything from a workload
// to a kernel's indexing. Measured times are CPU times and do not predict any device.
//
// The simulator checks for undefined behavior of a GPU program (Report.Violations, Report.Races): memory used after it
// was freed, before it was allocated, beyond its end, or by two streams without an event between them; memory freed
// while in use; handles used after they were destroyed; objects left when a context is released; and, inside kernels,
// barriers that not every thread reaches, warp masks with lanes that have exited, and writes outside a buffer.
//
// # Configuration
//
// Configure, and the environment variable GPUPROF_SIM at the first call,
// take "key=value;key=value":
//
//	driver=12080        version of the driver, which bounds the PTX it takes
//	devices=1           how many; 0 makes cuInit return 100
//	name=…              the devices' name
//	cc=9.0              compute capability
//	sms=8               multiprocessors
//	memory=2G pinned=4G limits of device and pinned memory (K, M and G are powers of 1024)
//	attr.N=v            device attribute N
//	poison=16M          up to this size, fresh memory is filled with ones (NaN, -1)
//	init=code           status that cuInit returns
//	peers=1             whether devices have access to each other's memory
//	missing=a,b         names that cuGetProcAddress does not find
//	order=forward       order in which blocks run and threads of a block start: forward, reverse, shuffle:seed
//	fail=F@n:code       the nth call of function F returns code (…:sticky: and every later one, too)
//	lost=n:code         the nth call of any function, and all later ones (999 if there is no code)
//	oom_at=n            the nth allocation of any kind returns 2
//	launch_fail=n:code  the nth kernel dies with code (719 if there is none), which the next wait reports;
//	                    a graph's kernels count whenever they run
//	jit_error=text      modules do not load; text is the log
//	machine_code=0      1: a cubin for this device can be loaded; the built-in kernels of the same names run
//	watchdog_ms=60000   a kernel that spins this long on a flag that is never set fails (702)
//	slow_copy_us=n      every copy takes n us longer; slow_launch_us: every kernel
//	report=file         at every retain and release of a context the report is written there,
//	                    for a test that starts a program
//
// Calls are counted from the time at which their key is set. "reset" closes every context and clears counts and
// configuration. fail also works for library functions that use the device, such as fail=cublasGemmEx@1:13; the code is
// then the library's own status.
//
// Simplifications: a graph's branches do not overlap; graphs are not captured into graphs; stream-ordered allocation
// is not captured; the default stream does not synchronize with other streams; bandwidth, caches and registers do not
// exist. The race check leaves out a kernel's volatile pointers; each other pointer counts as an access from its
// address to the end of the buffer.
package sim
