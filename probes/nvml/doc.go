// Package nvml is the telemetry of NVIDIA GPUs: what the driver's management
// library (NVML) says of clocks, power, temperature, memory, the PCIe link,
// throttling, energy and the processes on a GPU.
//
// # Unknown is not zero and not fine
//
// A figure that NVML does not give (not supported by this GPU, by this driver,
// inside a MIG instance, or not permitted) is unknown: NaN in a number, empty in
// a text, false beside a value, an absent track. It is never a zero.
//
// # One gate
//
// A call into NVML before it is started or after it is stopped may end the process.
// So every call passes one gate, [Library], which is only handed out after the
// library was opened and started, and refuses every call after Close. A function
// that the installed library does not have is nil in the table and is not called.
// Where a build loads no library, Open says so and everything else stays the same.
//
// # No cgo
//
// The library is loaded and called by internal/dynlib, with or without cgo. NVIDIA's
// binding (github.com/NVIDIA/go-nvml), which needs cgo, is the reference of tests: with
// the build tag gonvml they compare layouts, constants, names and every answer with it.
//
// # Instruments
//
// [Device] satisfies this interface; a package that measures declares it for
// itself and needs no import of this one:
//
//	type Instruments interface {
//		Start(ctx context.Context, every time.Duration) // sample in a goroutine of its own
//		Pause()                                         // no reading is under way once it returns
//		Resume()
//		Stop() map[string]gpuprof.Track                 // times in s since Start
//		EnergyJ() (float64, bool)                       // counter, J since the driver was loaded
//		EnergyPeriod(ctx context.Context) (time.Duration, bool) // how often the counter moves
//		PowerW() (float64, bool)                        // now
//		ClockHz() (float64, bool)                       // of the multiprocessors, now
//		Throttles() map[string]float64                  // s by reason since the device was chosen
//		ThrottledS() (s float64, reasons []string, ok bool) // their sum
//		Foreign() (n int, ok bool)                      // other programs' processes on the device
//		Latency() (time.Duration, bool)                 // of one call
//		Facts() map[string]string                       // for the fingerprint
//	}
//
// # Fields
//
// Numbers of NVML's fields are those of nvml.h: 74 power, 75 thermal and 76
// sync-boost throttling in ns; 186 instant power in mW; 269 to 271 software
// thermal, hardware thermal and power-brake slowdown in ns. The cumulative
// counters are what counts: a state that lasts shorter than the sampling
// interval is not missed.
package nvml
