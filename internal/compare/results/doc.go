// Package results reads result files of benchmark programs into the neutral form that package compare judges.
//
// A verdict treats processes as independent observations and the samples of one process as dependent. So for each
// format this list gives what counts as one process (a run), and what as its samples:
//
//	gpuprof run.json        its own series: one list of samples a process
//	Go benchmark lines      every line of one name is a run, as in benchstat
//	hyperfine JSON          every time is a process of its own: a run
//	NVBench JSON            the file is one run, its sample files the samples
//	Google Benchmark JSON   the file is one run, repetitions its samples
//	pytest-benchmark JSON   the file is one run, rounds its samples
//	asv results           the file is one run, recorded samples its samples
//	JMH JSON              every fork is a run, its iterations the samples
//	Bencher BMF, github-action-benchmark, vllm bench serve, AIPerf, guidellm   the file is one run of one sample
//	name value unit         the text is one run, lines of one name its samples; so is a JSON object of numbers
//
// Several JSON documents in one file, in sequence or in an array, are several processes: cat a1.json a2.json … >
// a.json makes a file of runs.
package results
