package search

import (
	"os"
	"testing"
)

// A side's variables are put back as they were: also one that was set to nothing.
func TestEnvironmentIsPutBack(t *testing.T) {
	for name, value := range map[string]string{"GPUPROF_TEST_OTHER": "old", "GPUPROF_TEST_EMPTY": "", "GPUPROF_TEST_UNSET": ""} {
		t.Setenv(name, value)
	}
	if err := os.Unsetenv("GPUPROF_TEST_UNSET"); err != nil {
		t.Fatal(err)
	}
	s := &bench{side: Side{Env: map[string]string{"GPUPROF_TEST_OTHER": "a", "GPUPROF_TEST_EMPTY": "b", "GPUPROF_TEST_UNSET": "c"}}}
	restore := s.setEnvironment()
	for name, want := range s.side.Env {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q during a step, want %q", name, got, want)
		}
	}
	restore()
	for name, want := range map[string]string{"GPUPROF_TEST_OTHER": "old", "GPUPROF_TEST_EMPTY": ""} {
		if got, set := os.LookupEnv(name); got != want || !set {
			t.Errorf("%s is %q afterwards, set %t", name, got, set)
		}
	}
	if got, set := os.LookupEnv("GPUPROF_TEST_UNSET"); set {
		t.Errorf("the unset variable is %q afterwards", got)
	}
}
