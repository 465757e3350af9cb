// Package sim builds and drives a simulated CUDA driver, for tests only.
//
// It is a shared library, built by g++ where the tests run, that exports the
// driver functions gpuprof uses and runs the same .cu files on the CPU:
// threads are fibers, barriers and shuffles switch between them, a stream is a
// thread that does its work in order while the caller goes on. Beside it lie a
// simulated cuBLAS and cuDNN. Opened by the real loader, it takes the whole
// path from a workload to a kernel's indexing where there is no GPU. Times it
// gives are those of the CPU and say nothing about any device.
//
// It checks what a GPU leaves undefined (Report.Violations, Report.Races):
// memory used after it was freed, before it was allocated, beyond its end, or
// by two streams that no event orders; freed while in use; handles used after
// they were destroyed; what is left when a context is released; and, inside
// kernels, barriers that not every thread reaches, warp masks that name lanes
// which have left, and writes outside a buffer.
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
//	memory=2G pinned=4G what may be allocated (K, M and G are powers of 1024)
//	attr.N=v            device attribute N
//	poison=16M          up to this size, fresh memory is filled with ones (NaN, -1)
//	init=code           what cuInit returns
//	peers=1             whether devices have access to each other's memory
//	missing=a,b         names that cuGetProcAddress does not find
//	order=forward       in which blocks run and threads of a block first run: forward, reverse, shuffle:seed
//	fail=F@n:code       the nth call of function F returns code (…:sticky: and every later one, too)
//	lost=n:code         the nth call of any function, and all later ones (999 if there is no code)
//	oom_at=n            the nth allocation of any kind returns 2
//	launch_fail=n:code  the nth kernel dies with code (719 if there is none), which the next wait reports;
//	                    a graph's kernels count whenever they run
//	jit_error=text      modules do not load; text is the log
//	machine_code=0      1: machine code (a cubin) for this device is taken; the kernels of the same names
//	                    that were compiled in run
//	watchdog_ms=60000   a kernel that spins so long on a flag nobody sets dies (702)
//	slow_copy_us=n      every copy takes so much longer; slow_launch_us for kernels
//	report=file         at every retain and release of a context the report is written there,
//	                    for a test that starts a program
//
// Counting starts where the key is set. "reset" closes every context and
// forgets all of it. Faults also work on the functions of the libraries that
// reach the device, such as fail=cublasGemmEx@1:13; the code is then the
// library's own status.
//
// What is simplified: a graph's branches do not overlap; graphs are not
// captured into graphs; stream-ordered allocation is not captured; the default
// stream is a stream like any other; bandwidth, caches and registers do not
// exist; a kernel's volatile pointers are left out of the race check, and its
// others count as used from the address given to the end of the buffer.
package sim
