//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package nsys

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A database with tables missing, without values or with impossible times gives a
// trace that holds together, or one sentence.
func TestRocpdHostile(t *testing.T) {
	for _, spine := range []bool{false, true} {
		for _, table := range []string{"string", "info_node", "info_process", "info_thread", "info_agent", "info_kernel_symbol", "track", "timestamp", "event", "region", "kernel_dispatch", "memory_copy"} {
			name := `"rocpd_` + table + `_00000_ab"`
			for _, s := range []string{"DROP TABLE " + name, "DELETE FROM " + name, "ALTER TABLE " + name + " RENAME COLUMN id TO di",
				"CREATE TABLE z AS SELECT * FROM " + name + "; DROP TABLE " + name + "; ALTER TABLE z RENAME TO " + name + "; INSERT INTO " + name + " DEFAULT VALUES; INSERT INTO " + name + " SELECT * FROM " + name} {
				readsSoundly(t, rocpdFile(t, spine, []*model.Trace{rocpdScene()}, s), s)
			}
		}
	}
	for _, s := range []string{
		`UPDATE "rocpd_kernel_dispatch_00000_ab" SET end = start - 5, grid_size_x = -1`, `UPDATE "rocpd_kernel_dispatch_00000_ab" SET start = 9223372036854775807`,
		`UPDATE "rocpd_region_00000_ab" SET end = start - 5`, `UPDATE "rocpd_region_00000_ab" SET start = 'x', pid = 'y', name_id = -4`,
		`UPDATE "rocpd_event_00000_ab" SET extdata = '{"message": 7', category_id = 1e300`, `UPDATE "rocpd_event_00000_ab" SET stack_id = 21`,
		`UPDATE "rocpd_kernel_dispatch_00000_ab" SET grid_size_x = 9223372036854775807, workgroup_size_x = 1, grid_size_y = 9223372036854775807`,
		`UPDATE "rocpd_kernel_dispatch_00000_ab" SET agent_id = 99, kernel_id = 99`, `UPDATE "rocpd_memory_copy_00000_ab" SET size = -3, dst_agent_id = 0`,
		`UPDATE "rocpd_info_agent_00000_ab" SET extdata = '{"cu_count": -1}', type_index = NULL, product_name = x'00ff'`,
	} {
		readsSoundly(t, rocpdFile(t, false, []*model.Trace{rocpdScene()}, s), s)
	}
}
