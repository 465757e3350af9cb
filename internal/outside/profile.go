package outside

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/google/pprof/profile"
)

// ReadProfile reads a pprof profile. It returns the errors of Open, Bytes and ParseProfile.
func ReadProfile(ctx context.Context, path string) (*profile.Profile, error) {
	text, err := ReadAll(ctx, path)
	if err != nil {
		return nil, err
	}
	return ParseProfile(text)
}

// ParseProfile is ReadProfile for a text.
func ParseProfile(text []byte) (*profile.Profile, error) {
	if err := checkProfile(text, NewRoom()); err != nil {
		return nil, err
	}
	p, err := profile.ParseUncompressed(text)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, &damage{err}
	}
	return p, nil
}

// Upper bounds of the memory of parts of a decoded profile, bytes: of a top-level message (the largest is a sample with
// maps and lists), of a number or nested message in a list that still grows, and of a string without its text.
const (
	messageBytes = 256
	numberBytes  = 24
	stringBytes  = 40
)

const stringTable = 6

var errNoProfile = errors.New("it is no profile")

// checkProfile takes the memory that decoding a profile needs from room, before it is decoded.
func checkProfile(b []byte, room *Room) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return &damage{errNoProfile}
		}
		b = b[n:]
		var size uint64
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(b)
			size = uint64(max(n, 0))
		case 1:
			size = 8
		case 2:
			size, n = binary.Uvarint(b)
			if n <= 0 {
				return &damage{errNoProfile}
			}
			b = b[n:]
		case 5:
			size = 4
		default:
			return &damage{errNoProfile}
		}
		if size > uint64(len(b)) || tag&7 == 0 && size == 0 {
			return &damage{errNoProfile}
		}
		part := b[:size]
		b = b[size:]
		cost := int64(stringBytes + len(part))
		if tag>>3 != stringTable {
			cost = messageBytes
			for _, c := range part {
				if c < 0x80 { // last byte of a number
					cost += numberBytes
				}
			}
		}
		if err := room.Take(cost); err != nil {
			return err
		}
	}
	return nil
}
