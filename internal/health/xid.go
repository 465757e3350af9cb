package health

// level is the severity of an XID for the GPU.
type level int

const (
	programs level = iota // an error of a program, which the driver ends
	noted                 // a note, not a fault
	reset                 // the GPU is faulty until it is reset
	restart               // the GPU is faulty until the machine is restarted
	replace               // the hardware needs work
)

// xid is a driver error code.
type xid struct {
	means string
	level level
}

// fixes maps a level to its fix.
var fixes = map[level]string{
	reset:   FixReset,
	restart: FixRestart,
	replace: "drain the node, and check the GPU's power cables and seat; if the fault returns, replace the GPU",
}

// NVLink errors of Blackwell and later GPUs, whose messages state the severity.
const (
	firstNVLink5 = 144
	lastNVLink5  = 150
	// recoveryXID reports a new recovery action of the driver.
	recoveryXID = 154
	offBusXID   = 79
)

// xids lists the error codes that concern the GPU, with the resolution of NVIDIA's catalogue
// (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, October 2025). The catalogue ends at 161;
// later resolutions follow the names in nverror.h of driver 595. Other codes concern programs or are unused. For 144 to
// 150 and 154 the message decides too.
var xids = map[int]xid{
	46:  {"the GPU stopped processing", reset},
	48:  {"double bit memory error", reset},
	54:  {"the auxiliary power is not connected", replace},
	62:  {"the GPU's power management controller halted", reset},
	63:  {"a faulty memory row or page was noted, to be taken out of use at the next reset", noted},
	64:  {"a faulty memory row or page could not be noted to be taken out of use", reset},
	74:  {"NVLink error", reset},
	79:  {"the GPU has fallen off the bus", restart},
	92:  {"many single bit memory errors that were corrected", noted},
	93:  {"the limit of writes to the InfoROM was exceeded", noted},
	94:  {"a memory error that was contained: the program that had the memory was ended", noted},
	95:  {"a memory error that could not be contained", reset},
	109: {"a context switch did not end in time", reset},
	110: {"security fault", reset},
	119: {"the GPU's system processor does not answer", reset},
	120: {"error of the GPU's system processor", reset},
	121: {"error of the chip-to-chip link that was corrected", noted},
	136: {"the training of an NVLink failed", reset},
	137: {"NVLink refused an access to another GPU's memory", noted},
	140: {"a memory error that was not recovered", reset},
	143: {"the GPU could not be initialized", reset},
	144: {"NVLink error (SAW)", reset},
	145: {"NVLink error (RLW)", reset},
	146: {"NVLink error (TLW)", reset},
	147: {"NVLink error (TREX)", reset},
	148: {"NVLink error (NVLPW_CTRL)", reset},
	149: {"NVLink error (NETIR)", reset},
	150: {"NVLink error (MSE)", reset},
	151: {"the rotation of the encryption keys failed", restart},
	155: {"NVLink error that the software defines", reset},
	156: {"a part of the GPU was noted to be taken out of use at the next reset", reset},
	157: {"a part of the GPU could not be noted to be taken out of use", noted},
	158: {"fatal timeout of the GPU", reset},
	159: {"error on the coherent link to the host", noted},
	160: {"a memory channel was noted to be taken out of use", noted},
	161: {"a memory channel could not be noted to be taken out of use", noted},
	164: {"the power smoothing circuit is near the end of its life", noted},
	165: {"the power smoothing circuit is at the end of its life", noted},
	166: {"encrypted traffic before the NVLink was ready", noted},
	167: {"fatal timeout on PCIe", restart},
	168: {"the GPU has less memory than before, because of errors in it", noted},
	169: {"the GPU's security controller halted", reset},
	170: {"interrupt of an encrypted NVLink", noted},
	171: {"uncorrectable error in DRAM", reset},
	172: {"uncorrectable error in SRAM", reset},
	173: {"the chip-to-chip link failed", restart},
	175: {"error of the memory subsystem", noted},
	176: {"correctable errors on PCIe", noted},
	185: {"a spare part of the GPU came into use", noted},
}
