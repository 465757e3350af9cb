package analyze

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// CollectiveKind is a kind of communication, as printed in reports.
type CollectiveKind string

// The kinds of communication.
const (
	AllReduceCalls     CollectiveKind = "all-reduce"
	AllGatherCalls     CollectiveKind = "all-gather"
	ReduceScatterCalls CollectiveKind = "reduce-scatter"
	AllToAllCalls      CollectiveKind = "all-to-all"
	SendReceiveCalls   CollectiveKind = "send and receive"
	BroadcastCalls     CollectiveKind = "broadcast"
	BarrierCalls       CollectiveKind = "barrier"
	otherCalls         CollectiveKind = "communication of another kind"
)

// CollectiveOf classifies a communication kernel by the operators around its launch, then by its own name. The
// operators come first because NCCL runs an all-to-all as sends and receives.
func (x *Index) CollectiveOf(g int32) CollectiveKind {
	for h := x.EnclosingOp(g); h >= 0; h = x.OpAbove(h) {
		if k := parseCollectiveKind(x.T.Name(x.T.Host[h].Name)); k != otherCalls {
			return k
		}
	}
	if l := x.T.GPU[g].Launch; l >= 0 {
		for h := x.Parent(l); h >= 0; h = x.Parent(h) {
			if e := &x.T.Host[h]; e.Kind == model.Annotation {
				if k := parseCollectiveKind(x.T.Name(e.Name)); k != otherCalls {
					return k
				}
			}
		}
	}
	return parseCollectiveKind(x.T.Name(x.T.GPU[g].Name))
}

func parseCollectiveKind(name string) CollectiveKind {
	s := strings.NewReplacer("_", "", " ", "", "-", "").Replace(strings.ToLower(name))
	for _, k := range []struct {
		word string
		kind CollectiveKind
	}{
		{"alltoall", AllToAllCalls}, {"a2a", AllToAllCalls}, {"reducescatter", ReduceScatterCalls}, {"allgather", AllGatherCalls}, {"allreduce", AllReduceCalls},
		{"crossdevicereduce", AllReduceCalls}, {"sendrecv", SendReceiveCalls}, {"nccl:send", SendReceiveCalls}, {"nccl:recv", SendReceiveCalls},
		{"c10d::send", SendReceiveCalls}, {"c10d::recv", SendReceiveCalls}, {"broadcast", BroadcastCalls},
		{"barrier", BarrierCalls}, {"deepep::", AllToAllCalls}, {"ep::int", AllToAllCalls}, {"moecomm::", AllToAllCalls},
	} {
		if strings.Contains(s, k.word) {
			return k.kind
		}
	}
	return otherCalls
}
