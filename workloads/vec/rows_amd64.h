// What the inner loops of products share. Y12 and Y13 hold sixteen values of a row of b.

// ROW adds one value of a, from memory, times the row of b to lo and hi.
#define ROW(from, t, lo, hi) \
	VBROADCASTSS from, t \
	VFMADD231PS Y12, t, lo \
	VFMADD231PS Y13, t, hi

// HALFROW is ROW of eight values, in b.
#define HALFROW(from, t, b, sum) \
	VBROADCASTSS from, t \
	VFMADD231PS b, t, sum

// ADDROW adds Y12 times lo and hi to sixteen values at BX, and writes them at DI.
#define ADDROW(lo, hi) \
	VMOVUPS (BX), Y13 \
	VMOVUPS 32(BX), Y14 \
	VFMADD231PS lo, Y12, Y13 \
	VFMADD231PS hi, Y12, Y14 \
	VMOVUPS Y13, (DI) \
	VMOVUPS Y14, 32(DI)

// ZERO12 and ZERO8 clear the first registers.
#define ZERO8 \
	VXORPS Y0, Y0, Y0 \
	VXORPS Y1, Y1, Y1 \
	VXORPS Y2, Y2, Y2 \
	VXORPS Y3, Y3, Y3 \
	VXORPS Y4, Y4, Y4 \
	VXORPS Y5, Y5, Y5 \
	VXORPS Y6, Y6, Y6 \
	VXORPS Y7, Y7, Y7

#define ZERO12 \
	ZERO8 \
	VXORPS Y8, Y8, Y8 \
	VXORPS Y9, Y9, Y9 \
	VXORPS Y10, Y10, Y10 \
	VXORPS Y11, Y11, Y11
