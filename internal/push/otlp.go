package push

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/pprof/profile"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	profiles "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/gpuprof/gpuprof/internal/document"
)

// encodeOTLP returns an ExportProfilesServiceRequest, which has the same fields as ProfilesData. OTLP has a profile per
// sample type; all share one dictionary.
func (s *Server) encodeOTLP(p *profile.Profile) (message, error) {
	d := newDictionary()
	stacks, labels := make([]int32, len(p.Sample)), make([][]int32, len(p.Sample))
	for i, sample := range p.Sample {
		stacks[i], labels[i] = d.addStack(sample), d.addLabels(sample)
	}
	scope := &profiles.ScopeProfiles{Scope: &common.InstrumentationScope{Name: "gpuprof"}}
	for k, of := range p.SampleType {
		out := &profiles.Profile{
			SampleType:   &profiles.ValueType{TypeStrindex: d.addText(of.Type), UnitStrindex: d.addText(of.Unit)},
			TimeUnixNano: uint64(max(p.TimeNanos, 0)), DurationNano: uint64(max(p.DurationNanos, 0)),
		}
		for i, sample := range p.Sample {
			if sample.Value[k] != 0 {
				out.Samples = append(out.Samples, &profiles.Sample{StackIndex: stacks[i], AttributeIndices: labels[i], Values: []int64{sample.Value[k]}})
			}
		}
		if len(out.Samples) > 0 {
			scope.Profiles = append(scope.Profiles, out)
		}
	}
	data := &profiles.ProfilesData{
		Dictionary: d.out,
		ResourceProfiles: []*profiles.ResourceProfiles{{
			Resource:      &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: textValue(s.serviceName())}}},
			ScopeProfiles: []*profiles.ScopeProfiles{scope},
		}},
	}
	// Derive the ID from the content, so that the server recognizes a repeated request as the same profile.
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(data)
	if err != nil {
		return message{}, err
	}
	for k, out := range scope.Profiles {
		sum := sha256.Sum256(fmt.Appendf(plain, "%d", k))
		out.ProfileId = sum[:16]
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(data)
	return message{kind: "application/x-protobuf", body: body}, err
}

func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

// dictionary has the tables that all profiles of a message share. Entry 0 of each table is empty.
type dictionary struct {
	out        *profiles.ProfilesDictionary
	texts      map[string]int32
	functions  map[*profile.Function]int32
	locations  map[*profile.Location]int32
	stacks     map[string]int32
	attributes map[[2]string]int32
}

func newDictionary() *dictionary {
	return &dictionary{
		out: &profiles.ProfilesDictionary{
			StringTable: []string{""}, MappingTable: []*profiles.Mapping{{}}, LocationTable: []*profiles.Location{{}}, FunctionTable: []*profiles.Function{{}},
			LinkTable: []*profiles.Link{{TraceId: make([]byte, 16), SpanId: make([]byte, 8)}}, AttributeTable: []*profiles.KeyValueAndUnit{{}}, StackTable: []*profiles.Stack{{}},
		},
		texts: map[string]int32{"": 0}, functions: map[*profile.Function]int32{}, locations: map[*profile.Location]int32{}, stacks: map[string]int32{}, attributes: map[[2]string]int32{},
	}
}

func (d *dictionary) addText(s string) int32 {
	i, there := d.texts[s]
	if !there {
		i = int32(len(d.out.StringTable))
		d.texts[s], d.out.StringTable = i, append(d.out.StringTable, s)
	}
	return i
}

// addStack adds a sample's stack, the innermost location first, as in pprof.
func (d *dictionary) addStack(s *profile.Sample) int32 {
	if len(s.Location) == 0 {
		return 0
	}
	indices := make([]int32, len(s.Location))
	var key []byte
	for i, l := range s.Location {
		indices[i] = d.addLocation(l)
		key = protowire.AppendVarint(key, uint64(indices[i]))
	}
	i, there := d.stacks[string(key)]
	if !there {
		i = int32(len(d.out.StackTable))
		d.stacks[string(key)], d.out.StackTable = i, append(d.out.StackTable, &profiles.Stack{LocationIndices: indices})
	}
	return i
}

func (d *dictionary) addLocation(l *profile.Location) int32 {
	i, there := d.locations[l]
	if !there {
		out := &profiles.Location{Address: l.Address}
		for _, line := range l.Line {
			out.Lines = append(out.Lines, &profiles.Line{FunctionIndex: d.addFunction(line.Function), Line: line.Line})
		}
		i = int32(len(d.out.LocationTable))
		d.locations[l], d.out.LocationTable = i, append(d.out.LocationTable, out)
	}
	return i
}

func (d *dictionary) addFunction(f *profile.Function) int32 {
	if f == nil {
		return 0
	}
	i, there := d.functions[f]
	if !there {
		i = int32(len(d.out.FunctionTable))
		d.functions[f] = i
		d.out.FunctionTable = append(d.out.FunctionTable, &profiles.Function{NameStrindex: d.addText(f.Name), SystemNameStrindex: d.addText(f.SystemName), FilenameStrindex: d.addText(f.Filename), StartLine: f.StartLine})
	}
	return i
}

func (d *dictionary) addLabels(s *profile.Sample) (out []int32) {
	for _, key := range slices.Sorted(maps.Keys(s.Label)) {
		if len(s.Label[key]) == 0 {
			continue
		}
		pair := [2]string{key, s.Label[key][0]}
		i, there := d.attributes[pair]
		if !there {
			i = int32(len(d.out.AttributeTable))
			d.attributes[pair] = i
			d.out.AttributeTable = append(d.out.AttributeTable, &profiles.KeyValueAndUnit{KeyStrindex: d.addText(key), Value: textValue(pair[1])})
		}
		out = append(out, i)
	}
	return out
}

// checkPartial parses OTLP's answer. Its field 1 reports a partial success: the number of rejected profiles, and the
// reason.
func (s *Server) checkPartial(answer []byte) error {
	if s.pyroscope {
		return nil
	}
	rejected, why := uint64(0), ""
	eachField(answer, func(number protowire.Number, value []byte, _ uint64) {
		if number != 1 {
			return
		}
		eachField(value, func(number protowire.Number, value []byte, count uint64) {
			switch number {
			case 1:
				rejected = count
			case 2:
				why = string(value)
			}
		})
	})
	if rejected > 0 {
		return errors.New(document.CleanText(fmt.Sprintf("it rejected %d profiles", rejected) + quoteReason([]byte(why))))
	}
	return nil
}

// eachField calls each for the fields of a protobuf message, with the bytes of a length-delimited field or the value of
// a number. It stops at the first malformed field.
func eachField(text []byte, each func(number protowire.Number, value []byte, count uint64)) {
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return
		}
		text = text[n:]
		switch kind {
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(text)
			if n < 0 {
				return
			}
			each(number, value, 0)
			text = text[n:]
		case protowire.VarintType:
			count, n := protowire.ConsumeVarint(text)
			if n < 0 {
				return
			}
			each(number, nil, count)
			text = text[n:]
		default:
			return
		}
	}
}
