package memtest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Long writes a snapshot of about size bytes as Python does. In it, one device alternately allocates and frees blocks
// of 512 bytes, all with the same empty stack. Long returns the number of events.
func Long(to io.Writer, size int64) (events int, err error) {
	w := bufio.NewWriterSize(to, 1<<20)
	memo := 0
	text := func(s string) int {
		fmt.Fprintf(w, "\x8c%c%s\x94", len(s), s)
		memo++
		return memo - 1
	}
	fmt.Fprint(w, "\x80\x04}\x94(")
	memo++
	text("segments")
	fmt.Fprint(w, "]\x94")
	memo++
	text("device_traces")
	fmt.Fprint(w, "]\x94]\x94")
	memo += 2
	// The first event, a "snapshot" event without effect, has the strings to which all later events refer.
	keys := map[string]int{}
	fmt.Fprint(w, "}\x94(")
	memo++
	names := []string{"alloc", "free_requested", "free_completed"}
	for i, n := range names { // members that readers ignore
		text(fmt.Sprint("k", i))
		keys[n] = text(n)
	}
	keys["action"] = text("action")
	text("snapshot")
	for _, k := range []string{"addr", "size", "stream", "time_us"} {
		keys[k] = text(k)
		fmt.Fprint(w, "K\x00")
	}
	keys["frames"] = text("frames")
	fmt.Fprint(w, "]\x94")
	keys["stack"] = memo
	fmt.Fprint(w, "ua")
	ref := func(name string) []byte { return []byte{'h', byte(keys[name])} }
	for written := int64(400); written < size; {
		fmt.Fprint(w, "(")
		for range 333 {
			for k, n := range names {
				e := append([]byte("}\x94("), ref("action")...)
				e = append(append(e, ref(n)...), ref("addr")...)
				e = append(e, 0x8a, 6)
				e = append(e, binary.LittleEndian.AppendUint64(nil, base+uint64(512*(events%4096)))[:6]...)
				e = append(append(append(e, ref("size")...), 'M', 0, 2), ref("stream")...)
				e = append(append(e, 'K', 0), ref("time_us")...)
				e = append(e, 0x8a, 7)
				e = append(e, binary.LittleEndian.AppendUint64(nil, uint64(1_700_000_000_000_000+10*events+k))[:7]...)
				e = append(append(append(e, ref("frames")...), ref("stack")...), 'u')
				n, _ := w.Write(e)
				written += int64(n)
			}
			events += 3
		}
		fmt.Fprint(w, "e")
	}
	fmt.Fprint(w, "au.")
	if err := w.Flush(); err != nil {
		return 0, fmt.Errorf("writing a long snapshot: %w", err)
	}
	return events + 1, nil
}
