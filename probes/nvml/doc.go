// Package nvml is the telemetry of NVIDIA GPUs: clocks, power, temperature, memory, the PCIe link, throttling, energy
// and the processes on a GPU, from the driver's management library (NVML).
//
// # Unknown is not zero and not fine
//
// A figure that NVML does not report (not supported by this GPU, by this driver, inside a MIG instance, or not
// permitted) is unknown: NaN in a number, empty in a text, false as the second result, an absent track. It is never a
// zero.
//
// # One gate
//
// A call into NVML before its start or after its stop may end the process. So every call passes one gate, [Library],
// which exists only after the library was opened and started, and which refuses every call after Close. A function
// that the installed library lacks is nil in the table and is not called. In a build that loads no library, Open
// returns an error and everything else works unchanged.
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
// Field numbers follow nvml.h: 74 power, 75 thermal and 76 sync-boost throttling in ns; 186 instant power in mW; 269
// to 271 software thermal, hardware thermal and power-brake slowdown in ns. Throttling comes from cumulative
// counters, which do not miss a state that is shorter than the sampling interval.
package nvml
