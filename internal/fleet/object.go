package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/launch"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

const suffix = ".json.zst"

// objectName matches the names of objects: rank, attempt and hash.
var objectName = lazyregexp.New(`^\d{6,}-\d+-[0-9a-f]{12}\.json\.zst$`)

// Object is the file that a rank writes to the folder of its job.
type Object struct {
	gpuprof.Head
	launch.Place
	Of      gpuprof.DocumentKind `json:"of"` // the kind of the payload: run or health
	Started time.Time            `json:"started"`
	Payload json.RawMessage      `json:"payload"`

	name   string // name in the bucket
	device string // device name, if the ranks are devices
}

// New returns the object of a rank with a document as its payload.
func New(p launch.Place, of gpuprof.DocumentKind, started time.Time, by gpuprof.Tool, payload []byte) *Object {
	return &Object{Head: document.NewHead(document.Rank, by), Place: p, Of: of, Started: started.UTC(), Payload: payload}
}

// Write puts the object into a bucket and returns its name. The name has a hash, so that writing it again changes
// nothing.
func (o *Object) Write(ctx context.Context, b bucket.Bucket) (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", gpuprof.Errorf(nil, "encoding the object of rank %d: %w", o.Rank, err).WithFix("this is a fault in gpuprof, please report it")
	}
	z, err := bucket.NewCompressor()
	if err != nil {
		return "", err
	}
	defer z.Close()
	sum := sha256.Sum256(text)
	name := fmt.Sprintf("%s/%06d-%d-%s%s", o.Of, o.Rank, o.Attempt, hex.EncodeToString(sum[:6]), suffix)
	return name, b.Put(ctx, name, z.EncodeAll(text, nil))
}

// Probe checks before a measurement that this rank can write to a bucket. The error is ErrUsage or ErrInput.
func Probe(ctx context.Context, b bucket.Bucket, rank int) error {
	if _, files := b.(*bucket.Folder); !files {
		_, err := b.List(ctx, "none") // only reads: a bucket may permit writing and deny removal
		return err
	}
	name := fmt.Sprintf(".gpuprof-probe-%d", rank)
	if err := b.Put(ctx, name, nil); err != nil {
		return err
	}
	return b.Remove(ctx, name)
}
