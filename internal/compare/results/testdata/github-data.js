window.BENCHMARK_DATA = {
 "lastUpdate": 1767225600000,
 "repoUrl": "https://example.invalid/r",
 "entries": {
  "Python": [
   {
    "commit": {
     "author": {
      "name": "A"
     },
     "id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "message": "m",
     "timestamp": "2026-01-01T00:00:00Z",
     "url": "https://example.invalid/c"
    },
    "date": 1767139200000,
    "tool": "pytest",
    "benches": [
     {
      "name": "test_sum",
      "value": 900.0,
      "unit": "iter/sec",
      "range": "stddev: 0.1",
      "extra": "mean: 1 msec"
     }
    ]
   },
   {
    "commit": {
     "author": {
      "name": "A"
     },
     "id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
     "message": "m",
     "timestamp": "2026-01-01T00:00:00Z",
     "url": "https://example.invalid/c"
    },
    "date": 1767225600000,
    "tool": "pytest",
    "benches": [
     {
      "name": "test_sum",
      "value": 950.0,
      "unit": "iter/sec"
     }
    ]
   }
  ],
  "Go": [
   {
    "commit": {
     "author": {
      "name": "A"
     },
     "id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
     "message": "m",
     "timestamp": "2026-01-01T00:00:00Z",
     "url": "https://example.invalid/c"
    },
    "date": 1767225600000,
    "tool": "go",
    "benches": [
     {
      "name": "BenchmarkSum",
      "value": 31.5,
      "unit": "ns/op\t16 B/op",
      "extra": "x"
     },
     {
      "name": "BenchmarkSum - ns/op",
      "value": 31.5,
      "unit": "ns/op"
     },
     {
      "name": "BenchmarkSum - B/op",
      "value": 16,
      "unit": "B/op"
     },
     {
      "name": "BenchmarkSum - MB/s",
      "value": 820,
      "unit": "MB/s"
     }
    ]
   }
  ],
  "Scores": [
   {
    "commit": {
     "author": {
      "name": "A"
     },
     "id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
     "message": "m",
     "timestamp": "2026-01-01T00:00:00Z",
     "url": "https://example.invalid/c"
    },
    "date": 1767225600000,
    "tool": "customBiggerIsBetter",
    "benches": [
     {
      "name": "accuracy",
      "value": 0.5,
      "unit": "points"
     },
     {
      "name": "uptime",
      "value": 90,
      "unit": "s"
     }
    ]
   }
  ]
 }
}
