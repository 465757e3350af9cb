//go:build linux && !race

// Programs are started, and what is measured is done by them.

package record

import (
	"os"
	"os/exec"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// BenchmarkCUDARecord is what the recorder takes for itself to keep one record, writing included, as it counts that:
// on CUPTI's thread, of a program on the simulated driver. A GPU adds what CUPTI takes.
func BenchmarkCUDARecord(b *testing.B) {
	for _, release := range []string{"12.9", "13.5"} {
		b.Run(release, func(b *testing.B) {
			var own, records int64
			for b.Loop() {
				dir := b.TempDir()
				o := defaults(dir)
				o.CUPTI = sim.CUPTI(b, release)
				in, err := writeInjection(&o, []string{o.CUPTI})
				if err != nil {
					b.Fatal(err)
				}
				bed := cudaEnvironment(b)
				cmd := exec.Command(bed.program, "1000", "200")
				cmd.Env = in.environWithRecorder(setEnviron(os.Environ(), bed.env))
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				for _, p := range readCUDA(dir) {
					own, records = own+p.OwnNS, records+p.Records
				}
			}
			if records < 200_000 {
				b.Fatalf("%d records", records)
			}
			b.ReportMetric(float64(own)/float64(records), "ns/record")
		})
	}
}
