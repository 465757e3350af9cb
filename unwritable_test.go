package gpuprof_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestUnwritable: the sentence names the cause that it was, and what helps against
// that one.
func TestUnwritable(t *testing.T) {
	for cause, want := range map[error]string{
		syscall.ENOSPC: "writing run.json: disk full: " + syscall.ENOSPC.Error() + "; free space or choose another folder with -o",
		syscall.EDQUOT: "writing run.json: disk quota used up: " + syscall.EDQUOT.Error() + "; free space or choose another folder with -o",
		syscall.EROFS:  "writing run.json: " + syscall.EROFS.Error() + "; choose another folder with -o",
		syscall.EMFILE: "writing run.json: " + syscall.EMFILE.Error() + "; raise the limit of open files (ulimit -n)",
		syscall.EACCES: "writing run.json: " + syscall.EACCES.Error() + "; give a path",
	} {
		for _, err := range []error{cause, &os.LinkError{Op: "rename", Old: "/x/.tmp-1", New: "/x/run.json", Err: cause}, &fs.PathError{Op: "write", Path: "/x/.tmp-1", Err: cause}, fmt.Errorf("encoding: %w", &fs.PathError{Op: "write", Path: "/x/.tmp-1", Err: cause})} {
			got := gpuprof.Unwritable("writing run.json", err, "choose another folder with -o", "give a path")
			if got.Error() != want || !errors.Is(got, gpuprof.ErrUsage) || !errors.Is(got, cause) {
				t.Errorf("got  %v\nwant %s", got, want)
			}
		}
	}
	for _, cause := range []error{syscall.EFBIG, syscall.EIO} {
		got := gpuprof.Unwritable("writing run.json", cause, "choose another folder with -o", "give a path").Error()
		if !strings.Contains(got, cause.Error()) || !strings.HasSuffix(got, "choose another folder with -o") {
			t.Error(got)
		}
	}
}
