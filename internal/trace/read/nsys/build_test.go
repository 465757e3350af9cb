package nsys

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

// build writes a database from SQL statements and returns its path.
func build(t testing.TB, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.sqlite")
	buildAt(t, path, statements...)
	return path
}

func buildAt(t testing.TB, path string, statements ...string) {
	t.Helper()
	// Built beside and moved, since the driver's own names cannot hold everything a file's can.
	tmp := filepath.Join(t.TempDir(), "build.sqlite")
	db, err := sql.Open("sqlite", tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%v in %s", err, s)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// Process 100 with threads 100 and 101, and process 200, as nsys writes them.
const (
	pid100 = "281476654432256" // 1<<48 | 100<<24
	tid100 = "281476654432356" // … | 100
	tid101 = "281476654432357"
	pid200 = "281478332153856" // 1<<48 | 200<<24
	tid200 = "281478332154056"
)

// stringRows are the strings of the made-up recording.
const stringRows = `INSERT INTO StringIds VALUES (1,'void gemm<float>(float*)'),(2,'gemm'),(3,'cudaLaunchKernel_v7000'),(4,'cudaMemcpyAsync_ptsz_v3020'),
	(5,'ProfilerStep#7'),(6,'python3'),(7,'aten::mm, seq = 4, op_id = 9'),(8,'cudaGraphLaunch_v10000'),(9,'cudaMemsetAsync_v3020')`

// schema2021 is early 2021: no enumerations, no nulls, one table of GPUs.
func schema2021() []string {
	return []string{
		`CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)`, stringRows,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL,
			correlationId INT NOT NULL, globalPid INT NOT NULL, demangledName INT NOT NULL, shortName INT NOT NULL,
			gridX INT NOT NULL, gridY INT NOT NULL, gridZ INT NOT NULL, blockX INT NOT NULL, blockY INT NOT NULL, blockZ INT NOT NULL, graphNodeId INT NOT NULL)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000,3000,0,1,7,11,` + pid100 + `,1,2,4,5,6,32,2,1,0), (5000,5500,0,1,7,14,` + pid100 + `,1,2,1,1,1,64,1,1,99)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL,
			correlationId INT NOT NULL, globalPid INT NOT NULL, bytes INT NOT NULL, copyKind INT NOT NULL, srcKind INT NOT NULL, dstKind INT NOT NULL, graphNodeId INT NOT NULL)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1000,1500,0,1,7,10,` + pid100 + `,4096,1,0,2,0), (3500,3600,0,1,7,12,` + pid100 + `,8,2,2,1,0)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL,
			correlationId INT NOT NULL, globalPid INT NOT NULL, value INT NOT NULL, bytes INT NOT NULL)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (4000,4100,0,1,7,13,` + pid100 + `,0,64)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, end INT NOT NULL, eventClass INT NOT NULL, globalTid INT NOT NULL, correlationId INT NOT NULL,
			nameId INT NOT NULL, returnValue INT NOT NULL, callchainId INT NOT NULL)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900,990,0,` + tid100 + `,10,4,0,0), (1600,1700,0,` + tid100 + `,11,3,0,0), (3100,3650,0,` + tid100 + `,12,4,0,0),
			(3700,3750,0,` + tid100 + `,13,9,0,0), (4200,4300,0,` + tid100 + `,14,8,0,0)`,
		`CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT, eventType INT NOT NULL, rangeId INT, category INT, color INT, text TEXT, globalTid INT, endGlobalTid INT, textId INT, domainId INT)`,
		`INSERT INTO NVTX_EVENTS VALUES (800,6000,59,NULL,NULL,NULL,'ProfilerStep#7',` + tid100 + `,NULL,NULL,0), (1550,1750,59,NULL,NULL,NULL,'aten::mm, seq = 4, op_id = 9',` + tid100 + `,NULL,NULL,0)`,
		`CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INT NOT NULL, name TEXT, computeCapabilityMajor INT, computeCapabilityMinor INT, numMultiprocessors INT, totalGlobalMem INT, globalMemoryBandwidth INT)`,
		`INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0,'Made-up GPU',8,0,108,42000000000,1555000000)`,
		`CREATE TABLE ThreadNames (nameId INT NOT NULL, priority INT, globalTid INT)`, `INSERT INTO ThreadNames VALUES (6,20,` + tid100 + `)`,
	}
}

// enums are the tables of meanings, with numbers that differ from the
// defaults, so that a reader that ignores them is found out.
func enums() []string {
	return []string{
		`CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT)`,
		`INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1,'CUDA_MEMCPY_KIND_HTOD','Host-to-Device'), (2,'CUDA_MEMCPY_KIND_DTOH','Device-to-Host'), (21,'CUDA_MEMCPY_KIND_HTOD',''), (22,'CUDA_MEMCPY_KIND_DTOH','')`,
		`CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT)`,
		`INSERT INTO ENUM_CUDA_MEM_KIND VALUES (50,'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE','Pageable'), (51,'CUDA_MEMOPR_MEMORY_KIND_PINNED','Pinned'), (52,'CUDA_MEMOPR_MEMORY_KIND_DEVICE','Device')`,
		`CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT)`,
		`INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (34,'NvtxMark',''), (69,'NvtxPushPopRange',''), (70,'NvtxStartEndRange',''), (75,'NvtxDomainCreate','')`,
	}
}

// schema2023 has nulls, enumerations, GPUs and CUDA devices apart.
func schema2023() []string {
	s := append([]string{
		`CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)`, stringRows,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
			correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
			gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, graphNodeId INTEGER)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000,3000,0,1,7,11,` + pid100 + `,1,2,NULL,1,4,5,6,32,2,1,NULL), (5000,5500,0,1,7,14,` + pid100 + `,1,2,NULL,1,1,1,1,64,1,1,99)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
			correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
			srcDeviceId INTEGER, dstDeviceId INTEGER, graphNodeId INTEGER)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1000,1500,0,1,7,10,` + pid100 + `,4096,21,NULL,50,52,NULL,NULL,NULL), (3500,3600,0,1,7,12,` + pid100 + `,8,22,NULL,52,51,NULL,NULL,NULL)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
			correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (4000,4100,0,1,7,13,` + pid100 + `,0,64,NULL,52)`,
		`CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
			nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER)`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900,990,0,` + tid100 + `,10,4,0,NULL), (1600,1700,0,` + tid100 + `,11,3,0,NULL), (3100,3650,0,` + tid100 + `,12,4,0,NULL),
			(3700,3750,0,` + tid100 + `,13,9,0,NULL), (4200,4300,0,` + tid100 + `,14,8,0,NULL)`,
		`CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
			globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER)`,
		`INSERT INTO NVTX_EVENTS VALUES (0,NULL,75,NULL,NULL,NULL,'NCCL',` + tid100 + `,NULL,NULL,1), (800,6000,69,NULL,NULL,NULL,NULL,` + tid100 + `,NULL,5,0), (1550,1750,69,NULL,NULL,NULL,NULL,` + tid100 + `,NULL,7,0)`,
		`CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, totalMemory INTEGER, memoryBandwidth INTEGER, smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER)`,
		`INSERT INTO TARGET_INFO_GPU VALUES (1,0,'Made-up GPU','',42000000000,1555000000000,108,8,0)`,
		`CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, numMultiprocessors INTEGER)`,
		`INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0,0,100,'',108)`,
		`CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER)`, `INSERT INTO ThreadNames VALUES (6,20,` + tid100 + `)`,
	}, enums()...)
	return s
}

// schema2025 adds columns that are in nobody's way, and graph launches by id.
func schema2025() []string {
	s := schema2023()
	return append(s,
		`ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN greenContextId INTEGER`,
		`ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN graphId INTEGER`,
		`ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN tensorSizeMinusOneElements TEXT NOT NULL DEFAULT '[]'`,
		`UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphId = 3, graphNodeId = NULL WHERE graphNodeId = 99`,
		`UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphId = 0 WHERE graphId IS NULL`,
		`ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN copyCount INTEGER DEFAULT 1`,
		`ALTER TABLE NVTX_EVENTS ADD COLUMN jsonTextId INTEGER`,
		`CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)`,
		`CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)`,
		`INSERT INTO PROCESSES VALUES (`+pid100+`,100,'trainer'), (`+pid200+`,200,'trainer')`,
	)
}
