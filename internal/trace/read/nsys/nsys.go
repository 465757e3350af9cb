// Package nsys reads SQLite databases of profilers into a model.Trace: exports of Nsight Systems reports, and
// databases of ROCm's rocprofv3 (rocpd.go).
//
// The schema of exports changes between versions of Nsight Systems: empty tables are left out, columns come and go,
// and the ENUM tables that define numbers may be missing. So the reader looks up which tables, columns and ENUM
// tables exist, and warns about missing data.
//
// Times are ns since the start of the recording. A globalTid holds the process in bits 24 to 47 and the thread in the
// 24 bits below; a globalPid has no thread. Correlation ids count per process: an operation and its launch have the
// same process and id.
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

// magic begins every SQLite 3 database.
const magic = "SQLite format 3\x00"

// exportCommand is the command that makes an export.
const exportCommand = "nsys export --type sqlite"

// Sniff reports whether a file that begins with head is an SQLite database.
func Sniff(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// IsReport reports whether a file is an Nsight Systems report, which only nsys can read. head is the start of the
// file: a database that was renamed to .nsys-rep is not a report.
func IsReport(head []byte, path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".nsys-rep", ".qdrep", ".qdstrm":
		return !Sniff(head)
	}
	return false
}

// ReportError returns the error for a report given instead of its export.
func ReportError(path string) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is an Nsight Systems report, which only nsys can read", path).WithFix("export it with: %s %s, and give the .sqlite file", exportCommand, filepath.Base(path))
}

// Read reads an export, read-only. A damaged file yields its readable part, with Truncated set and a warning. If
// there is nothing to analyse, the error wraps gpuprof.ErrUsage for a missing file, ctx's error after cancellation,
// else gpuprof.ErrInput.
//
// at is the path of the file to read, possibly a copy, and path its name in messages. A trace that exceeds the memory
// budget room (bytes, 0 for outside.TraceMemory) yields its first part, with Truncated set and a warning.
func Read(ctx context.Context, at, path string, room int64) (*model.Trace, error) {
	f, err := inspectFile(at, path)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, f)
	if err != nil {
		return nil, err
	}
	defer db.close()
	r := newReader(db, model.NewMemoryBudget(room))
	read := r.readTables
	if r.rocpd && r.nsysTables() == 0 {
		read = r.readRocpdTables
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	if err := r.finishTrace(ctx); err != nil {
		return nil, err
	}
	return r.t, nil
}

// file describes a database. Its header was read without SQLite; rocpd is set once the tables are known.
type file struct {
	path     string // name in messages
	dataPath string // path of the file to read, possibly a copy
	wal      bool   // written in WAL mode
	rocpd    bool   // has tables of ROCm's profilers
	size     int64
	expected int64 // bytes by the page count in the header; 0 unknown
}

func (f file) isShort() bool { return f.expected > f.size }

func inspectFile(at, path string) (file, error) {
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return file{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: there is no such file", path).WithFix("give the .sqlite file that %s wrote", exportCommand)
	case err != nil:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix("check that the file can be read")
	case !info.Mode().IsRegular():
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: it is not a regular file", path).WithFix("give the .sqlite file that %s wrote", exportCommand)
	case info.Size() == 0 && journalSize(path, "-wal") > 0:
		return file{}, journalError(path)
	case info.Size() == 0:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file is empty", path).WithFix("export the report again with: %s report.nsys-rep", exportCommand)
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
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is not an SQLite database", path).WithFix("export the report with: %s report.nsys-rep", exportCommand)
	case n < headerSize:
		return file{}, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file ends after %d bytes, inside the database header", path, n).WithFix("export the report again with: %s report.nsys-rep", exportCommand)
	}
	// Bytes 18 and 19 are the write and read versions; 2 is WAL.
	return file{path: path, dataPath: at, wal: max(head[18], head[19]) > 1, size: info.Size(), expected: expectedSize(head)}, nil
}

// journalSize returns the size of a database's journal, bytes; 0 none.
func journalSize(path, ext string) int64 {
	info, err := os.Stat(path + ext)
	if err != nil {
		return 0
	}
	return info.Size()
}

// journalError returns the error for a database in WAL mode whose tables are still in its journal.
func journalError(path string) error {
	where := fmt.Sprintf("its data is in %s, which is missing; copy that file too, and", filepath.Base(path)+"-wal")
	if n := journalSize(path, "-wal"); n > 0 {
		where = fmt.Sprintf("its data is in %s beside it (%d bytes), which is not read; wait until the program that writes it ends, or", filepath.Base(path)+"-wal", n)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the database is in WAL mode and %s put both into one file with: sqlite3 %s 'PRAGMA journal_mode=DELETE'", path, where, filepath.Base(path))
}

// warnJournal warns if the database has a journal. Then the database was copied while it was written, and the journal's
// data is missing.
func warnJournal(t *model.Trace) {
	for _, ext := range []string{"-wal", "-journal"} {
		if journalSize(t.Path, ext) == 0 {
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
