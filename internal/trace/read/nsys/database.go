package nsys

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpuprof/gpuprof"
)

// headerSize is the length of the SQLite database header.
const headerSize = 100

// maxValue limits a single value, bytes. The longest values in an export are a program's captured output, which is
// not read.
const maxValue = 64 << 20

// expectedSize returns the length of the database by its header, 0 unknown: page size (offset 16, 1 means 65536)
// times page count (offset 28). The count is valid only if the change counter (24) equals the counter at 92. See
// https://www.sqlite.org/fileformat.html, section 1.3.
func expectedSize(head []byte) int64 {
	be := binary.BigEndian
	if be.Uint32(head[24:]) != be.Uint32(head[92:]) {
		return 0
	}
	page := int64(be.Uint16(head[16:]))
	if page == 1 {
		page = 65536
	}
	if page < 512 || page&(page-1) != 0 {
		return 0 // SQLite would reject the header
	}
	return page * int64(be.Uint32(head[28:]))
}

type database struct {
	file
	db    *sql.DB
	conn  *sql.Conn
	table map[string]columns // by name without version
	// oldRocprof reports that the first version of rocprof wrote the database.
	oldRocprof bool
	versioned  map[string]string // full name of a table by its name without version, if it has a version
}

// columns maps lower-case column names to names quoted for a query.
type columns map[string]string

// databaseURI returns the URI that opens a database read-only, without lock and journal. trusted_schema=0 keeps views
// and defaults of a hostile schema from calling functions with side effects.
func databaseURI(f file) (string, error) {
	abs, err := filepath.Abs(f.dataPath)
	if err != nil {
		return "", err
	}
	abs = filepath.ToSlash(abs)
	if !strings.HasPrefix(abs, "/") {
		abs = "/" + abs // C:/…
	}
	uri := (&url.URL{Scheme: "file", Path: abs}).String()
	uri += "?mode=ro&immutable=1&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)&_pragma=temp_store(memory)"
	if f.isShort() {
		// SQLite reads a file that lacks pages only if its schema is writable. The file is still opened read-only.
		uri += "&_pragma=writable_schema(1)"
	}
	return uri, nil
}

func openDatabase(ctx context.Context, f file) (*database, error) {
	uri, err := databaseURI(f)
	if err != nil {
		return nil, damagedError(f, err)
	}
	d := &database{file: f, table: map[string]columns{}, versioned: map[string]string{}}
	if d.db, err = sql.Open("sqlite", uri); err != nil {
		return nil, damagedError(f, err)
	}
	d.db.SetMaxOpenConns(1)
	if d.conn, err = d.db.Conn(ctx); err == nil {
		_, err = sqlite.Limit(d.conn, sqlite3.SQLITE_LIMIT_LENGTH, maxValue)
	}
	if err == nil {
		err = d.readSchema(ctx)
	}
	if err != nil {
		d.close()
		if ctx.Err() != nil {
			return nil, cancelledError(ctx, f)
		}
		return nil, damagedError(f, err)
	}
	return d, nil
}

func (d *database) close() {
	if d.conn != nil {
		d.conn.Close() //nolint:errcheck // nothing was written
	}
	d.db.Close() //nolint:errcheck // nothing was written
}

func damagedError(f file, err error) error {
	again := "export the report again with: " + exportCommand + " report.nsys-rep"
	if f.rocpd {
		again = "record again with: " + rocprofCommand
	}
	if f.isShort() {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file ends at byte %d of %d (%w), and the rest cannot be read", f.path, f.size, f.expected, err).WithFix("copy it again, or %s", again)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the database is damaged (%w)", f.path, err).WithFix("%s", again)
}

func cancelledError(ctx context.Context, f file) error {
	return fmt.Errorf("reading trace %s: %w", f.path, context.Cause(ctx))
}

// readSchema lists ordinary tables. nsys writes no views or virtual tables, which could run without end.
func (d *database) readSchema(ctx context.Context) error {
	var names []string
	err := d.queryRows(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0`, 1, func(v []any) {
		if s, ok := v[0].(string); ok {
			names = append(names, s)
		}
	})
	if err != nil {
		return err
	}
	d.oldRocprof = slices.Contains(names, "KERN") || slices.Contains(names, "OPS") && slices.Contains(names, "HIP")
	for _, name := range names {
		d.rocpd = d.rocpd || strings.HasPrefix(name, "rocpd_")
		base := name
		if _, _, ok := rocpdTable(name); !ok && !isWantedTable(name) {
			plain, version := splitVersion(name)
			if version == "" || !isWantedTable(plain) || slices.Contains(names, plain) || d.versioned[plain] > name {
				continue
			}
			base, d.versioned[plain] = plain, name
		}
		cols := columns{}
		// hidden is 0 for ordinary columns. Other columns are generated, which means computed.
		err := d.queryRows(ctx, `SELECT name FROM pragma_table_xinfo(`+quoteSQL(name, '\'')+`) WHERE hidden = 0`, 1, func(v []any) {
			if s, ok := v[0].(string); ok {
				cols[strings.ToLower(s)] = quoteSQL(s, '"')
			}
		})
		if err != nil {
			return err
		}
		d.table[base] = cols
	}
	return nil
}

// quotedTable returns a table's full name for a query, from its name without version.
func (d *database) quotedTable(table string) string {
	return quoteSQL(cmp.Or(d.versioned[table], table), '"')
}

func quoteSQL(s string, mark rune) string {
	m := string(mark)
	return m + strings.ReplaceAll(s, m, m+m) + m
}

// firstColumn returns the first of the given columns that the table has, else "NULL".
func (c columns) firstColumn(names ...string) string {
	for _, n := range names {
		if q, ok := c[strings.ToLower(n)]; ok {
			return q
		}
	}
	return "NULL"
}

func (c columns) hasAll(names ...string) bool {
	for _, n := range names {
		if _, ok := c[strings.ToLower(n)]; !ok {
			return false
		}
	}
	return true
}

// errRows is the error for a table with more rows than fit into the file, because its pages form a cycle.
var errRows = errors.New("more rows than the file has room for")

// Least size of a row in the file, bytes: pointer, sizes and header; for an event also times and thread or stream.
const (
	leastRow   = 6
	leastEvent = 16
)

// queryRows calls row for each row of a query of width columns. A value is nil, int64, float64, string or []byte, and
// valid only during the call.
func (d *database) queryRows(ctx context.Context, q string, width int, row func([]any)) error {
	return d.scanRows(ctx, q, width, leastRow, row)
}

// scanRows is queryRows with a known minimum size of a row in the file, the argument least, in bytes. It fails with
// errRows if there are more rows than the file's size allows.
func (d *database) scanRows(ctx context.Context, q string, width int, least int64, row func([]any)) error {
	rows, err := d.conn.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	values, into := make([]any, width), make([]any, width)
	for i := range values {
		into[i] = &values[i]
	}
	most := d.size/least + 1024
	for n := int64(0); rows.Next(); n++ {
		if n >= most {
			return errRows
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row(values)
	}
	if err := rows.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return ctx.Err()
}

// guessRows estimates the number of rows of some tables from their last row ids, limited by the size of the file.
func (d *database) guessRows(ctx context.Context, tables ...string) int {
	n := int64(0)
	for _, table := range tables {
		if _, ok := d.table[table]; !ok {
			continue
		}
		_ = d.queryRows(ctx, `SELECT max(rowid) FROM `+d.quotedTable(table), 1, func(v []any) { n += max(0, min(integerOrZero(v[0]), d.size)) })
	}
	return int(min(n, d.size/32))
}
