package roofline

import (
	"cmp"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// peak is a row of a vendor's data sheet: dense rates at the boost clock.
type peak struct {
	// match are words of the device's name, all of which must occur.
	match []string
	// sms is the number of multiprocessors (AMD: compute units) of the device; least and most limit its memory, GB (0:
	// no limit).
	sms            int
	least, most    float64
	fp64, fp64m    float64 // TFLOP/s: vector, matrix; 0 none
	fp32, tf32     float64
	half           float64 // fp16 and bf16 on the matrix units, accumulated in float32
	fp8, int8      float64
	gbPerS         float64
	cacheMB        float64 // last-level cache
	reachable      float64 // share of half that the fastest published matrix product reaches, 0 unknown
	name, document string
}

// peaks lists more specific rows first. Sparse rates of data sheets are halved. reachable comes from the shape
// searches in stas00/ml-engineering (bf16).
var peaks = []peak{
	{match: []string{"GH200", "144"}, sms: 132, fp64: 34, fp64m: 67, fp32: 67, tf32: 494.7, half: 989.4, fp8: 1978.9, int8: 1978.9, gbPerS: 4800, cacheMB: 50, reachable: 0.84, name: "GH200 144 GB", document: "NVIDIA GH200 data sheet"},
	{match: []string{"H200"}, sms: 132, fp64: 34, fp64m: 67, fp32: 67, tf32: 494.7, half: 989.4, fp8: 1978.9, int8: 1978.9, gbPerS: 4800, cacheMB: 50, reachable: 0.80, name: "H200 SXM", document: "NVIDIA H200 data sheet"},
	{match: []string{"H100", "PCIe"}, sms: 114, fp64: 26, fp64m: 51, fp32: 51, tf32: 378, half: 756, fp8: 1513, int8: 1513, gbPerS: 2000, cacheMB: 50, name: "H100 PCIe", document: "NVIDIA H100 data sheet"},
	{match: []string{"H100"}, sms: 132, least: 70, most: 90, fp64: 34, fp64m: 67, fp32: 67, tf32: 494.7, half: 989.4, fp8: 1978.9, int8: 1978.9, gbPerS: 3350, cacheMB: 50, reachable: 0.80, name: "H100 SXM5", document: "NVIDIA H100 data sheet"},
	{match: []string{"B200"}, sms: 148, fp64: 37, fp64m: 37, fp32: 75, tf32: 1100, half: 2250, fp8: 4500, int8: 4500, gbPerS: 7700, cacheMB: 126, reachable: 0.78, name: "B200 (HGX)", document: "NVIDIA HGX B200 sheet"},
	{match: []string{"A100"}, sms: 108, most: 50, fp64: 9.7, fp64m: 19.5, fp32: 19.5, tf32: 156, half: 312, int8: 624, gbPerS: 1555, cacheMB: 40, reachable: 0.87, name: "A100 40 GB", document: "NVIDIA A100 data sheet"},
	{match: []string{"A100", "PCI"}, sms: 108, least: 50, fp64: 9.7, fp64m: 19.5, fp32: 19.5, tf32: 156, half: 312, int8: 624, gbPerS: 1935, cacheMB: 40, reachable: 0.81, name: "A100 PCIe 80 GB", document: "NVIDIA A100 80 GB data sheet"},
	{match: []string{"A100"}, sms: 108, least: 50, fp64: 9.7, fp64m: 19.5, fp32: 19.5, tf32: 156, half: 312, int8: 624, gbPerS: 2039, cacheMB: 40, reachable: 0.87, name: "A100 SXM4 80 GB", document: "NVIDIA A100 80 GB data sheet"},
	{match: []string{"V100", "PCI"}, sms: 80, fp64: 7, fp32: 14, half: 112, gbPerS: 900, cacheMB: 6, name: "V100 PCIe", document: "NVIDIA Tesla V100 data sheet"},
	{match: []string{"V100"}, sms: 80, fp64: 7.8, fp32: 15.7, half: 125, gbPerS: 900, cacheMB: 6, name: "V100 SXM2", document: "NVIDIA Tesla V100 data sheet"},
	{match: []string{"T4"}, sms: 40, fp64: 0.25, fp32: 8.1, half: 65, int8: 130, gbPerS: 320, cacheMB: 4, name: "T4", document: "NVIDIA T4 data sheet"},
	{match: []string{"L40S"}, sms: 142, fp64: 1.4, fp32: 91.6, tf32: 183, half: 362, fp8: 733, int8: 733, gbPerS: 864, cacheMB: 96, name: "L40S", document: "NVIDIA L40S data sheet"},
	{match: []string{"L4"}, sms: 58, fp64: 0.47, fp32: 30.3, tf32: 60, half: 121, fp8: 242, int8: 242, gbPerS: 300, cacheMB: 48, name: "L4", document: "NVIDIA L4 data sheet"},
	{match: []string{"A10"}, sms: 72, fp64: 0.49, fp32: 31.2, tf32: 62.5, half: 125, int8: 250, gbPerS: 600, cacheMB: 6, name: "A10", document: "NVIDIA A10 data sheet"},
	{match: []string{"RTX 3090"}, sms: 82, fp64: 0.56, fp32: 35.6, tf32: 35.6, half: 71, int8: 284, gbPerS: 936, cacheMB: 6, name: "RTX 3090", document: "NVIDIA Ampere GA102 white paper"},
	{match: []string{"RTX 4090"}, sms: 128, fp64: 1.29, fp32: 82.6, tf32: 82.6, half: 165.2, fp8: 330.3, int8: 660.6, gbPerS: 1008, cacheMB: 72, name: "RTX 4090", document: "NVIDIA Ada white paper"},
	{match: []string{"RTX 5090"}, sms: 170, fp64: 1.64, fp32: 104.8, tf32: 104.8, half: 209.5, fp8: 419, int8: 838, gbPerS: 1792, cacheMB: 96, name: "RTX 5090", document: "NVIDIA RTX Blackwell white paper"},
	{match: []string{"MI355X"}, sms: 256, fp64: 78.6, fp64m: 78.6, fp32: 157.3, half: 2516.6, fp8: 5033, int8: 5033, gbPerS: 8000, cacheMB: 256, reachable: 0.62, name: "MI355X", document: "AMD Instinct MI355X data sheet"},
	{match: []string{"MI325X"}, sms: 304, fp64: 81.7, fp64m: 163.4, fp32: 163.4, tf32: 653.7, half: 1307.4, fp8: 2614.9, int8: 2614.9, gbPerS: 6000, cacheMB: 256, reachable: 0.60, name: "MI325X", document: "AMD Instinct MI325X data sheet"},
	{match: []string{"MI300X"}, sms: 304, fp64: 81.7, fp64m: 163.4, fp32: 163.4, tf32: 653.7, half: 1307.4, fp8: 2614.9, int8: 2614.9, gbPerS: 5300, cacheMB: 256, reachable: 0.51, name: "MI300X", document: "AMD Instinct MI300X data sheet"},
	{match: []string{"MI250X"}, sms: 110, fp64: 23.9, fp64m: 47.9, fp32: 47.9, half: 191.5, int8: 191.5, gbPerS: 1638, cacheMB: 8, name: "MI250X, one of its two devices", document: "AMD Instinct MI250X data sheet, halved"},
	{match: []string{"MI210"}, sms: 104, fp64: 22.6, fp64m: 45.3, fp32: 45.3, half: 181, int8: 181, gbPerS: 1638, cacheMB: 8, name: "MI210", document: "AMD Instinct MI210 data sheet"},
}

// guessName returns the name of a device that the trace does not name (vLLM on ROCm), from its multiprocessors and
// its memory, GB.
func guessName(sms int, gb float64) string {
	if sms == 304 && gb > 200 && gb < 210 {
		return "AMD Instinct MI300X"
	}
	return ""
}

// findPeak returns the row of a device. ok is false for an unknown device, and for a part of a GPU (MIG), whose
// bandwidth is unknown.
func findPeak(d *model.Device) (peak, bool) {
	gb := float64(d.TotalBytes) / 1e9
	name := d.Name
	if name == "" {
		name = guessName(d.SMs, gb)
	}
	for _, p := range peaks {
		if name == "" || !hasAll(name, p.match) || gb > 0 && (gb < p.least || p.most > 0 && gb > p.most) || d.SMs > 0 && d.SMs != p.sms {
			continue
		}
		if d.PeakBytesPerS > 0 {
			p.gbPerS = d.PeakBytesPerS / 1e9
		}
		return p, true
	}
	if d.PeakFLOPsPerS > 0 && d.PeakBytesPerS > 0 {
		return peak{name: cmp.Or(d.Name, "device"), document: "as XLA recorded them", half: d.PeakFLOPsPerS / tera, gbPerS: d.PeakBytesPerS / 1e9}, true
	}
	return peak{}, false
}

const tera = 1e12

// Rates are the peak rates in the data sheet of a device.
type Rates struct {
	Name      string  // of the row
	BytesPerS float64 // of the memory
	flopsOf   peak
}

// RatesOf returns the peak rates of a device; ok is false for unknown devices and for parts of a GPU (MIG).
func RatesOf(d *model.Device) (r Rates, ok bool) {
	p, ok := findPeak(d)
	return Rates{p.name, p.gbPerS * 1e9, p}, ok
}

// FLOPsPerS returns the dense peak rate of products in a precision ("16-bit", "fp8"), 0 unknown.
func (r *Rates) FLOPsPerS(precision string) float64 { return r.flopsOf.flopRate(precision) }

// hasAll reports whether a name contains all parts as whole words: an A10 is not an A100, and an L4 is not an L40S.
func hasAll(name string, parts []string) bool {
	for _, part := range parts {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		if end := at + len(part); end < len(name) && isDigit(part[len(part)-1]) && (isDigit(name[end]) || name[end] == 'G') {
			return false
		}
		if at > 0 && (isDigit(name[at-1]) || name[at-1] >= 'A' && name[at-1] <= 'Z') {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// flopRate returns the peak rate of a precision, FLOP/s; 0 none.
func (p *peak) flopRate(precision string) float64 {
	switch precision {
	case "fp64":
		return max(p.fp64, p.fp64m) * tera
	case "fp32":
		return p.fp32 * tera
	case "tf32":
		return max(p.tf32, p.fp32) * tera
	case "16-bit":
		return p.half * tera
	case "fp8":
		return p.fp8 * tera
	case "int8":
		return p.int8 * tera
	}
	return 0
}
