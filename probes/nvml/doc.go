// Package nvml reads the telemetry of NVIDIA GPUs from the driver's management library (NVML): clocks, power,
// temperature, memory, the PCIe link, throttling, energy, and the processes on a GPU.
//
// # Unknown values
//
// A value that NVML does not report (not supported by this GPU or driver, inside a MIG instance, or not permitted)
// is unknown: NaN for a number, "" for a text, false as the second result, or an absent track. It is never zero.
//
// # A single gate
//
// A call into NVML before its start or after its stop may crash the process. Every call therefore passes a gate,
// [Library], which exists only after the library was loaded and started, and which refuses calls after Close. A
// function that the installed library lacks is nil in the table and is not called. In a build that loads no library
// Open returns an error, and everything else works unchanged.
//
// # No cgo
//
// internal/dynlib loads and calls the library, with or without cgo. Tests compare layouts, constants, names and
// every answer with NVIDIA's binding (github.com/NVIDIA/go-nvml), which needs cgo, under the build tag gonvml.
//
// # Instruments
//
// [Device] satisfies this interface. A measuring package declares the interface itself and does not import this
// package:
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
// Field numbers are from nvml.h: 74 power, 75 thermal and 76 sync-boost throttling in ns; 186 instant power in mW;
// 269 to 271 software thermal, hardware thermal and power-brake slowdown in ns. Throttling is from cumulative
// counters, which do not miss states shorter than the sampling interval.
package nvml
