package program

import "os"

// lockDir opens the folder. Windows cannot lock folders, so a second gpuprof that uses the folder gets no error.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, cannotMake(dir, err)
	}
	return f, nil
}
