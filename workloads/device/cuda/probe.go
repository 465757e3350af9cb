package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// simulatedSymbol is exported by libraries that simulate the driver for tests.
const simulatedSymbol = "gpuprof_simulated"

// Options select a device.
type Options struct {
	// Library is the path of the driver's library; empty for the installed one.
	Library string
	// Index counts the devices visible to the process (CUDA_VISIBLE_DEVICES). It is ignored if UUID is set.
	Index int
	// UUID is a UUID or its beginning, with or without its GPU- or MIG- prefix.
	UUID string
	// AllowSimulated accepts a simulated driver: times are no measurements, Info().Facts["simulated"] is "true".
	AllowSimulated bool
	// MemoryLimit is the maximum device memory in bytes; 0 allows all free memory.
	MemoryLimit int64
}

// DeviceInfo describes a device; making it needs no context.
type DeviceInfo struct {
	Index  int
	Name   string
	UUID   string // GPU-… or MIG-…
	Arch   string // "sm_90"
	Cores  int    // multiprocessors
	Memory int64  // bytes
	// CUDA is the newest supported version, such as "12.4".
	CUDA      string
	MIG       bool
	Simulated bool
	// Fault is the ErrDevice of a device that the driver fails to describe; other fields than Index may then be empty.
	// Opening the device fails with the same error.
	Fault error

	handle int32
}

func (i DeviceInfo) String() string {
	if i.Fault != nil {
		return fmt.Sprintf("%d: a GPU that does not answer", i.Index)
	}
	return fmt.Sprintf("%d: %s (%s)", i.Index, i.Name, i.UUID)
}

// Probe lists the devices visible to this process, by index, without a context and without device memory. A device
// that does not answer has its Fault set. If no device can be used, the error is an ErrDevice with reason and fix.
func Probe(o Options) (devices []DeviceInfo, err error) {
	defer recoverPanic(&err)
	_, devices, err = listDevices(o)
	return devices, err
}

// Driver describes the loaded library of the driver.
type Driver struct {
	// Path is the loaded file, or the name by which the loader found it if the system does not report the file.
	Path string
	CUDA string // newest supported version, "12.4"; empty if unknown
}

// FindDriver only loads the driver's library and queries its version. The error is an ErrDevice with reason and fix;
// see Absent. Path is set if the library loaded, even with an error.
func FindDriver(o Options) (d Driver, err error) {
	defer recoverPanic(&err)
	drv, cuda, err := loadDriver(o)
	if drv != nil {
		d = Driver{dynlib.LoadedFrom(drv.path), cuda}
	}
	return d, err
}

// loadDriver loads the driver's library and queries its version, such as "12.4". With an error the driver is nil if it
// did not load, and the version empty if it is unknown.
func loadDriver(o Options) (drv *driver, cuda string, err error) {
	if drv, err = openDriver(o.Library); err != nil {
		return nil, "", err
	}
	if drv.simulated && !o.AllowSimulated {
		return drv, "", openError("%s only imitates a driver, for tests, so its times mean nothing", drv.path).WithFix("remove it from the library path")
	}
	var version int32
	if r := drv.Version(&version); r != success {
		return drv, "", initFailure(drv, "reading the driver's version", r)
	}
	if version < minVersion {
		err = tooOld(version)
	}
	return drv, versionText(version), err
}

// Absent reports whether an error of Probe, Open or FindDriver means that there is no driver library, as opposed to a
// library that fails or a build that loads none.
func Absent(err error) bool { return dynlib.Unable == "" && errors.Is(err, dynlib.ErrAbsent) }

func recoverPanic(err *error) {
	if r := recover(); r != nil {
		*err = openError("loading the driver: %v", r).WithFix("reinstall the NVIDIA driver")
	}
}

func listDevices(o Options) (*driver, []DeviceInfo, error) {
	drv, cuda, err := loadDriver(o)
	if err != nil {
		return nil, nil, err
	}
	if r := drv.Init(0); r != success {
		return nil, nil, initFailure(drv, "starting the driver", r)
	}
	var n int32
	if r := drv.Count(&n); r != success {
		return nil, nil, initFailure(drv, "counting GPUs", r)
	}
	if n < 1 {
		return nil, nil, initFailure(drv, "counting GPUs", errNoDevice)
	}
	var list []DeviceInfo
	for i := range n {
		d, r := describeDevice(drv, i)
		if r != success {
			d.Fault = initFailure(drv, fmt.Sprintf("identifying GPU %d", i), r)
		}
		d.CUDA, d.Simulated = cuda, drv.simulated
		list = append(list, d)
	}
	if !slices.ContainsFunc(list, DeviceInfo.isAnswering) {
		return nil, nil, list[0].Fault
	}
	return drv, list, nil
}

func (i DeviceInfo) isAnswering() bool { return i.Fault == nil }

func describeDevice(drv *driver, i int32) (DeviceInfo, Result) {
	d := DeviceInfo{Index: int(i)}
	name := make([]byte, 256)
	var memory uintptr
	for _, ask := range []func() Result{
		func() Result { return drv.DeviceGet(&d.handle, i) },
		func() Result { return drv.DeviceName(&name[0], int32(len(name)-1), d.handle) },
		func() Result { return drv.TotalMem(&memory, d.handle) },
	} {
		if r := ask(); r != success {
			return d, r
		}
	}
	d.Name, _, _ = strings.Cut(string(name), "\x00")
	d.Memory = int64(memory)
	major, minor := drv.readAttribute(attrMajor, d.handle), drv.readAttribute(attrMinor, d.handle)
	d.Arch = fmt.Sprintf("sm_%d%d", major, minor)
	d.Cores = int(drv.readAttribute(attrMultiprocessors, d.handle))
	var r Result
	d.UUID, d.MIG, r = drv.readUUID(d.handle)
	d.MIG = d.MIG || strings.Contains(d.Name, " MIG ")
	return d, r
}

// readUUID returns the device's UUID, empty if the driver writes zeros. For a MIG instance cuDeviceGetUuid returns the
// UUID of the whole GPU and cuDeviceGetUuid_v2 the instance's.
func (d *driver) readUUID(dev int32) (id string, mig bool, r Result) {
	var whole, own [16]byte
	if r := d.UUID(&whole, dev); r != success {
		return "", false, r
	}
	if d.UUIDv2 == nil || d.UUIDv2(&own, dev) != success {
		own = whole
	}
	mig = own != whole
	if own == [16]byte{} {
		return "", mig, success
	}
	h := hex.EncodeToString(own[:])
	id = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	if mig {
		return "MIG-" + id, true, success
	}
	return "GPU-" + id, false, success
}

// readAttribute returns a device attribute, 0 if the driver does not support it.
func (d *driver) readAttribute(attr, dev int32) int32 {
	var v int32
	if d.Attribute(&v, attr, dev) != success {
		return 0
	}
	return v
}

func chooseDevice(list []DeviceInfo, o Options) (DeviceInfo, error) {
	if o.UUID == "" {
		if o.Index >= 0 && o.Index < len(list) {
			return list[o.Index], list[o.Index].Fault
		}
		return DeviceInfo{}, gpuprof.Errorf(gpuprof.ErrDevice,
			"opening CUDA device %d: this process sees %s", o.Index, joinDevices(list)).WithFix("choose one of them%s", visibilityHint())
	}
	var found []DeviceInfo
	for _, d := range list {
		if d.Fault != nil {
			continue
		}
		id := strings.ToLower(d.UUID)
		want := strings.ToLower(o.UUID)
		if strings.HasPrefix(id, want) || strings.HasPrefix(id[len("GPU-"):], want) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := visibilityHint()
		if strings.HasPrefix(strings.ToUpper(o.UUID), "MIG-") {
			hint = fmt.Sprintf("; a process sees one MIG instance, the one it was started with: set CUDA_VISIBLE_DEVICES=%s", o.UUID)
		}
		return DeviceInfo{}, gpuprof.Errorf(gpuprof.ErrDevice,
			"opening CUDA device %s: this process sees %s", o.UUID, joinDevices(list)).WithFix("choose one of them%s", hint)
	}
	return DeviceInfo{}, gpuprof.Errorf(gpuprof.ErrDevice,
		"opening CUDA device %s: that is the beginning of %s", o.UUID, joinDevices(found)).WithFix("give more of it")
}

func visibilityHint() string {
	if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		return fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%q)", v)
	}
	return ""
}

func joinDevices(list []DeviceInfo) string {
	var s []string
	for _, d := range list {
		s = append(s, d.String())
	}
	return strings.Join(s, ", ")
}

// hashName returns 16 hexadecimal digits of a name's SHA-256, to distinguish devices in shared results anonymously.
func hashName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}
