//go:build !linux

package main

import "errors"

func kernelLog(string) (string, error) { return "", errors.New("it is read on Linux only") }
