package program

import "os"

// lockDir opens the folder. Windows locks no folders, so of two gpuprof that are
// given the same one at once, the second is not told.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, cannotMake(dir, err)
	}
	return f, nil
}
