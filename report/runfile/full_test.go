package runfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// full is a file on a disk that is full after some bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return len(p), nil
	}
	n := f.room
	f.room = 0
	return n, &fs.PathError{Op: "write", Path: "/folder/.gpuprof-0123.tmp", Err: syscall.ENOSPC}
}

// TestFullDisk: whichever write meets the end of the disk, and whatever the encoder
// makes of its error, the sentence is about the disk, and is a usage error.
func TestFullDisk(t *testing.T) {
	for _, name := range []string{"run.json", "run.json.gz", "run.json.zst", "r.html", "r.md", "r.pb.gz"} {
		for _, room := range []int{0, 1, 70000, 1 << 20} {
			f, err := FormatOf(name)
			if err != nil {
				t.Fatal(err)
			}
			err = encodeInto(&full{room}, name, f, func(w io.Writer) error {
				for i := range 1 << 20 { // does not compress to nothing
					if _, err := fmt.Fprintf(w, "%x\n", uint32(i)*2654435761); err != nil {
						return errors.New("the encoder's own words: " + err.Error())
					}
				}
				return nil
			})
			if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "writing "+name+": disk full") ||
				strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), "free space or choose another folder with -o") {
				t.Errorf("%s with room for %d bytes: %v", name, room, err)
			}
		}
	}
	broken := errors.New("not a number")
	f, _ := FormatOf("run.json")
	if err := encodeInto(&full{1 << 20}, "run.json", f, func(io.Writer) error { return broken }); !errors.Is(err, broken) || errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("an encoder's own failure: %v", err)
	}
}
