package cupti

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// builder writes recordings as the recorder does.
type builder struct {
	bytes.Buffer
	names map[string]uint32
}

const testSchema = "kernel:start u64,end u64,corr u32,name u32,stream u32,context u32,gx u32,gy u32,gz u32,bx u16,by u16,bz u16,registers u16,shared u32,dynamic u32,device u16,flags u16,graph u32,local u32,node u64\n" +
	"copy:start u64,end u64,bytes u64,corr u32,stream u32,context u32,device u16,peer u16,kind u8,from u8,to u8,flags u8,graph u32,node u64\n" +
	"fill:start u64,end u64,bytes u64,corr u32,stream u32,context u32,device u16,memory u16,value u32,graph u32,node u64\n" +
	"call:start u64,end u64,corr u32,thread u32,name u32,result i32\n" +
	"nvtx:time u64,id u64,name u32,domain u32,thread u32,op u16,pad u16\n" +
	"device:id u32,name u32,sms u32,major u32,minor u32,flags u32,memory u64,bandwidth u64,uuid u8x16\n" +
	"clock:cupti u64,realtime u64,monotonic u64,gap u32,pad u32\nthread:thread u32,name u32\n" +
	"lost:cupti u64,buffers u64,write u64,names u64,nvtx u64\noverhead:start u64,end u64,kind u32,thread u32\n" +
	"graph:start u64,end u64,corr u32,stream u32,context u32,graph u32,device u16,pad u16,pad2 u32\n"

func newBuilder() *builder {
	b := &builder{names: map[string]uint32{}}
	b.WriteString(magic)
	b.put(uint32(version), uint32(byteOrder))
	b.text(tSchema, testSchema)
	return b
}

func (b *builder) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(b, le, v); err != nil {
			panic(err)
		}
	}
}

func (b *builder) chunk(kind uint16, record, count int, payload []byte) {
	for len(payload)%8 != 0 {
		payload = append(payload, 0)
	}
	b.put(uint32(chunkMark), kind, uint16(record), uint32(count), uint32(len(payload)), uint64(0))
	b.Write(payload)
}

func (b *builder) text(kind uint16, s string) { b.chunk(kind, 0, 1, []byte(s)) }

// record writes a chunk of one.
func (b *builder) record(kind uint16, values ...any) {
	var p builder
	p.put(values...)
	b.chunk(kind, p.Len(), 1, p.Bytes())
}

// name is the number of a text, written before its first use.
func (b *builder) name(s string) uint32 {
	if id, ok := b.names[s]; ok {
		return id
	}
	id := uint32(len(b.names) + 1)
	b.names[s] = id
	var p builder
	p.put(id, uint32(len(s)))
	p.WriteString(s)
	b.chunk(tNames, 0, 1, p.Bytes())
	return id
}

func (b *builder) kernel(name string, start, end uint64, corr, stream uint32, graph uint32) {
	b.record(tKernel, start, end, corr, b.name(name), stream, uint32(1), uint32(132), uint32(2), uint32(1), uint16(256), uint16(1), uint16(1), uint16(32), uint32(0), uint32(0), uint16(0), uint16(0), graph, uint32(0), uint64(graph))
}

func (b *builder) copy(kind, from, to uint8, bytes, start, end uint64, corr uint32) {
	b.record(tCopy, start, end, bytes, corr, uint32(7), uint32(1), uint16(0), uint16(0), kind, from, to, uint8(0), uint32(0), uint64(0))
}

func (b *builder) call(name string, start, end uint64, corr, thread uint32, result int32) {
	b.record(tCall, start, end, corr, thread, b.name(name), result)
}

func (b *builder) nvtx(op uint16, text string, at uint64, thread uint32, id uint64, domain uint32) {
	var name uint32
	if text != "" {
		name = b.name(text)
	}
	b.record(tNVTX, at, id, name, domain, thread, op, uint16(0))
}

func (b *builder) end() { b.record(tEnd, uint64(0), uint64(0), uint64(0)) }

func (b *builder) read(t testing.TB) *model.Trace {
	t.Helper()
	tr, err := Read(context.Background(), bytes.NewReader(b.Bytes()), "cuda-1.gpt", 0)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
