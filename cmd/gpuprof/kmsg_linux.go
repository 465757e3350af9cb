package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	mostKernelLog = 16 << 20 // limit of the read text, bytes
	kernelRecord  = 8 << 10  // longest line, bytes
)

// kernelLog returns the lines that the kernel's ring buffer, /dev/kmsg (file), still has from this boot. It does not
// wait for further lines.
func kernelLog(file string) (string, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var text strings.Builder
	record := make([]byte, kernelRecord)
	for text.Len() < mostKernelLog {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR): // the line was overwritten; continue with the next
			continue
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return text.String(), nil
		case err != nil:
			return text.String(), fmt.Errorf("%s: %w", file, err)
		}
		text.Write(record[:n])
		text.WriteByte('\n')
	}
	return text.String(), nil
}
