// Package nsys reads SQLite databases of profilers into a model.Trace: the export
// of an Nsight Systems report, and what rocprofv3 of ROCm writes (rocpd.go).
//
// The export's schema changes between versions of Nsight Systems: tables
// without rows are left out, columns come and go, and what a number means is
// said by ENUM tables that older versions lack. So nothing is taken for
// granted: the reader looks at the tables and columns that are there, takes
// meanings from the ENUM tables where they exist, and says in a warning what
// it could not find.
//
// Times are nanoseconds since the start of the recording. A globalTid holds
// the process in bits 24 to 47 and the thread in the 24 bits below; a
// globalPid is the same without a thread. Correlation ids count per process,
// so an operation and its launch belong together when both process and id do.
package nsys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// magic is how every SQLite 3 database begins.
const magic = "SQLite format 3\x00"

// export is the command that makes what this package reads.
const export = "nsys export --type sqlite"

// Sniff reports whether a file that begins with head is an SQLite database.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// IsReport reports whether a file is a report of Nsight Systems itself, which
// only nsys can read. head is the file's beginning; a database that somebody
// named .nsys-rep is no report.
func IsReport(head []byte, path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".nsys-rep", ".qdrep", ".qdstrm":
		return !Sniff(head)
	}
	return false
}

// ReportError is what to tell somebody who gave the report instead of its export.
func ReportError(path string) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is an Nsight Systems report, which only nsys can read", path).WithFix("export it with: %s %s, and give the .sqlite file", export, filepath.Base(path))
}

// Read reads a whole export. The file is opened read-only and nothing is
// written beside it. What a damaged file still holds is returned with
// Truncated set and a warning; an error means that there is nothing to
// analyse, and is gpuprof.ErrUsage for a missing file, ctx's own when it was
// cancelled and gpuprof.ErrInput otherwise.
//
// The file's bytes lie at at, which may be a copy, and path is its own name. room is
// the memory that the trace may take, bytes; 0 for outside.TraceMemory. Of a trace
// with more the first part is kept, with Truncated set and a warning.
func Read(ctx context.Context, at, path string, room int64) (*model.Trace, error) {
	f, err := inspect(at, path)
	if err != nil {
		return nil, err
	}
	db, err := open(ctx, f)
	if err != nil {
		return nil, err
	}
	defer db.close()
	r := newReader(db, model.NewRoom(room))
	read := r.tables
	if r.rocpd && r.nsysTables() == 0 {
		read = r.rocpdTables
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	if err := r.finish(ctx); err != nil {
		return nil, err
	}
	return r.t, nil
}

// file is what the first page says, before SQLite is asked.
type file struct {
	path     string // the file's own
	at       string // where its bytes are
	wal      bool   // written in WAL mode
	rocpd    bool   // it has tables of ROCm's profilers
	size     int64
	expected int64 // bytes by the header's page count; 0 when it does not say
}

// short reports whether pages are missing at the end.
func (f file) short() bool { return f.expected > f.size }

func inspect(at, path string) (file, error) {
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return file{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: there is no such file", path).WithFix("give the .sqlite file that %s wrote", export)
	case err != nil:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix("check that the file can be read")
	case !info.Mode().IsRegular():
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: it is not a regular file", path).WithFix("give the .sqlite file that %s wrote", export)
	case info.Size() == 0 && journal(path, "-wal") > 0:
		return file{}, inJournal(path)
	case info.Size() == 0:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file is empty", path).WithFix("export the report again with: %s report.nsys-rep", export)
	}
	in, err := outside.OpenRegular(at, os.O_RDONLY, 0)
	if err != nil {
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix("check that the file can be read")
	}
	defer in.Close()
	head := make([]byte, headerSize)
	n, _ := in.ReadAt(head, 0)
	switch head = head[:n]; {
	case IsReport(head, path):
		return file{}, ReportError(path)
	case !Sniff(head):
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is not an SQLite database", path).WithFix("export the report with: %s report.nsys-rep", export)
	case n < headerSize:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file ends after %d bytes, inside the database header", path, n).WithFix("export the report again with: %s report.nsys-rep", export)
	}
	// Bytes 18 and 19 are the versions of writing and reading; 2 is WAL.
	return file{path: path, at: at, wal: max(head[18], head[19]) > 1, size: info.Size(), expected: expectedSize(head)}, nil
}

// journal is the size of a journal beside a file, 0 for none.
func journal(path, ext string) int64 {
	info, err := os.Stat(path + ext)
	if err != nil {
		return 0
	}
	return info.Size()
}

// inJournal is the error of a database in WAL mode whose tables are not in the file
// itself.
func inJournal(path string) error {
	where := fmt.Sprintf("its data is in %s, which is missing; copy that file too, and", filepath.Base(path)+"-wal")
	if n := journal(path, "-wal"); n > 0 {
		where = fmt.Sprintf("its data is in %s beside it (%d bytes), which is not read; wait until the program that writes it ends, or", filepath.Base(path)+"-wal", n)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the database is in WAL mode and %s put both into one file with: sqlite3 %s 'PRAGMA journal_mode=DELETE'", path, where, filepath.Base(path))
}

// leftovers warns of a journal beside the file: the database was being
// written when it was copied, and what the journal holds is not seen.
func leftovers(t *model.Trace) {
	for _, ext := range []string{"-wal", "-journal"} {
		if journal(t.Path, ext) == 0 {
			continue
		}
		name := filepath.Base(t.Path)
		fix := ""
		if ext == "-wal" {
			fix = fmt.Sprintf("the database is in WAL mode: put both into one file with sqlite3 %s 'PRAGMA journal_mode=DELETE'", name)
		}
		t.Warn("unfinished-export", fmt.Sprintf("%s lies beside the database: the export was not finished, or is still being written, and its data is not read", name+ext), fix)
	}
}
