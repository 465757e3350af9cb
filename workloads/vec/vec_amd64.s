#include "textflag.h"
#include "rows_amd64.h"

// func sweepAVX2(dst *float32, dstStride int, src *float32, srcStride, n int, cells *int32, m *float32, count int)
TEXT ·sweepAVX2(SB), NOSPLIT, $0-64
	MOVQ dstStride+8(FP), R10
	SHLQ $2, R10
	MOVQ srcStride+24(FP), R11
	SHLQ $2, R11
	MOVQ cells+40(FP), R8
	MOVQ m+48(FP), R9
	MOVQ count+56(FP), R12

sweepcell:
	MOVLQSX (R8), SI
	MOVLQSX 4(R8), DI
	IMULQ R11, SI
	ADDQ  src+16(FP), SI
	IMULQ R10, DI
	ADDQ  dst+0(FP), DI
	VBROADCASTSS (R9), Y0
	MOVQ n+32(FP), CX
	SUBQ $32, CX
	JLT  sweep8

sweep32:
	VMOVUPS (DI), Y5
	VMOVUPS 32(DI), Y6
	VMOVUPS 64(DI), Y7
	VMOVUPS 96(DI), Y8
	VFMADD231PS (SI), Y0, Y5
	VFMADD231PS 32(SI), Y0, Y6
	VFMADD231PS 64(SI), Y0, Y7
	VFMADD231PS 96(SI), Y0, Y8
	VMOVUPS Y5, (DI)
	VMOVUPS Y6, 32(DI)
	VMOVUPS Y7, 64(DI)
	VMOVUPS Y8, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $32, CX
	JGE  sweep32

sweep8:
	ADDQ $24, CX
	JLT  sweep1

sweep8loop:
	VMOVUPS (DI), Y5
	VFMADD231PS (SI), Y0, Y5
	VMOVUPS Y5, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JGE  sweep8loop

sweep1:
	ADDQ $8, CX
	JLE  sweepnext

sweep1loop:
	VMOVSS (DI), X5
	VFMADD231SS (SI), X0, X5
	VMOVSS X5, (DI)
	ADDQ $4, SI
	ADDQ $4, DI
	DECQ CX
	JNZ  sweep1loop

sweepnext:
	ADDQ $16, R8
	ADDQ $4, R9
	DECQ R12
	JNZ  sweepcell
	VZEROUPPER
	RET

// func mulAVX2(dst, a, b *float32, n int)
TEXT ·mulAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	SUBQ $16, CX
	JLT  mulAVX28

mulAVX216:
	VMOVUPS (SI), Y1
	VMOVUPS 32(SI), Y2
	VMULPS (DX), Y1, Y5
	VMULPS 32(DX), Y2, Y6
	VMOVUPS Y5, (DI)
	VMOVUPS Y6, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DX
	ADDQ $64, DI
	SUBQ $16, CX
	JGE  mulAVX216

mulAVX28:
	ADDQ $8, CX
	JLT  mulAVX21
	VMOVUPS (SI), Y1
	VMULPS (DX), Y1, Y5
	VMOVUPS Y5, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX

mulAVX21:
	ADDQ $8, CX
	JLE  mulAVX2done

mulAVX21loop:
	VMOVSS (SI), X1
	VMULSS (DX), X1, X5
	VMOVSS X5, (DI)
	ADDQ $4, SI
	ADDQ $4, DX
	ADDQ $4, DI
	DECQ CX
	JNZ  mulAVX21loop

mulAVX2done:
	VZEROUPPER
	RET

// func mulAddAVX2(dst, a, b *float32, n int)
TEXT ·mulAddAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	SUBQ $16, CX
	JLT  mulAddAVX28

mulAddAVX216:
	VMOVUPS (SI), Y1
	VMOVUPS 32(SI), Y2
	VMOVUPS (DX), Y3
	VMOVUPS 32(DX), Y4
	VMOVUPS (DI), Y5
	VMOVUPS 32(DI), Y6
	VFMADD231PS Y3, Y1, Y5
	VFMADD231PS Y4, Y2, Y6
	VMOVUPS Y5, (DI)
	VMOVUPS Y6, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DX
	ADDQ $64, DI
	SUBQ $16, CX
	JGE  mulAddAVX216

mulAddAVX28:
	ADDQ $8, CX
	JLT  mulAddAVX21
	VMOVUPS (SI), Y1
	VMOVUPS (DX), Y3
	VMOVUPS (DI), Y5
	VFMADD231PS Y3, Y1, Y5
	VMOVUPS Y5, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX

mulAddAVX21:
	ADDQ $8, CX
	JLE  mulAddAVX2done

mulAddAVX21loop:
	VMOVSS (SI), X1
	VMOVSS (DX), X3
	VMOVSS (DI), X5
	VFMADD231SS X3, X1, X5
	VMOVSS X5, (DI)
	ADDQ $4, SI
	ADDQ $4, DX
	ADDQ $4, DI
	DECQ CX
	JNZ  mulAddAVX21loop

mulAddAVX2done:
	VZEROUPPER
	RET

// exp(-x) = 2^n e^r with n = round(-x/ln 2), |r| <= ln(2)/2: a Taylor
// polynomial of degree 7 is within half a unit in the last place there. ln 2
// is split in two parts so that n*ln 2 loses nothing (Cody and Waite).
DATA silu<>+0(SB)/4, $1.44269504088896341   // 1/ln 2
DATA silu<>+4(SB)/4, $0.693359375           // ln 2, high part
DATA silu<>+8(SB)/4, $-2.12194440e-4        // ln 2, low part
DATA silu<>+12(SB)/4, $1.98412698412698413e-4 // 1/7!
DATA silu<>+16(SB)/4, $1.38888888888888889e-3
DATA silu<>+20(SB)/4, $8.33333333333333333e-3
DATA silu<>+24(SB)/4, $4.16666666666666667e-2
DATA silu<>+28(SB)/4, $1.66666666666666667e-1
DATA silu<>+32(SB)/4, $0.5
DATA silu<>+36(SB)/4, $1.0
DATA silu<>+40(SB)/4, $87.0                 // exp(87) is finite, and so is its inverse
DATA silu<>+44(SB)/4, $-87.0
DATA silu<>+48(SB)/4, $127                  // exponent bias
GLOBL silu<>(SB), RODATA|NOPTR, $52

// func siluAVX2(x *float32, n int, c float32)
TEXT ·siluAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS c+16(FP), Y15
	VBROADCASTSS silu<>+36(SB), Y14
	VBROADCASTSS silu<>+0(SB), Y13
	VBROADCASTSS silu<>+4(SB), Y12
	VBROADCASTSS silu<>+8(SB), Y11
	VPBROADCASTD silu<>+48(SB), Y10
	VBROADCASTSS silu<>+40(SB), Y9
	VBROADCASTSS silu<>+44(SB), Y8
	VXORPS Y7, Y7, Y7

siluloop:
	VMOVUPS (DI), Y0
	VSUBPS Y0, Y7, Y1            // -x
	VMINPS Y1, Y9, Y1            // the second source where one is not a number
	VMAXPS Y1, Y8, Y1
	VMULPS Y13, Y1, Y2
	VROUNDPS $0, Y2, Y2          // n
	VFNMADD231PS Y12, Y2, Y1
	VFNMADD231PS Y11, Y2, Y1     // r
	VBROADCASTSS silu<>+12(SB), Y3
	VBROADCASTSS silu<>+16(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+20(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+24(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+28(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+32(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VFMADD213PS Y14, Y1, Y3
	VFMADD213PS Y14, Y1, Y3      // e^r
	VCVTPS2DQ Y2, Y2
	VPADDD Y10, Y2, Y2
	VPSLLD $23, Y2, Y2           // 2^n
	VFMADD213PS Y14, Y2, Y3      // 1 + exp(-x)
	VMULPS Y15, Y0, Y0
	VDIVPS Y3, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  siluloop
	VZEROUPPER
	RET

// func gemm6x16(k int, a *float32, lda, step int, b *float32, ldb int, from *float32, ldfrom int, c *float32, ldc int, alpha float32)
TEXT ·gemm6x16(SB), NOSPLIT, $0-84
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ lda+16(FP), R8
	SHLQ $2, R8
	MOVQ step+24(FP), R12
	SHLQ $2, R12
	MOVQ b+32(FP), DX
	MOVQ ldb+40(FP), R11
	SHLQ $2, R11
	MOVQ from+48(FP), BX
	MOVQ ldfrom+56(FP), R13
	SHLQ $2, R13
	MOVQ c+64(FP), DI
	MOVQ ldc+72(FP), R9
	SHLQ $2, R9
	LEAQ (R8)(R8*2), R10
	ADDQ SI, R10                 // a + 3 rows
	ZERO12

loop6:
	VMOVUPS (DX), Y12
	VMOVUPS 32(DX), Y13
	ROW((SI), Y14, Y0, Y1)
	ROW((SI)(R8*1), Y15, Y2, Y3)
	ROW((SI)(R8*2), Y14, Y4, Y5)
	ROW((R10), Y15, Y6, Y7)
	ROW((R10)(R8*1), Y14, Y8, Y9)
	ROW((R10)(R8*2), Y15, Y10, Y11)
	ADDQ R12, SI
	ADDQ R12, R10
	ADDQ R11, DX
	DECQ CX
	JNZ  loop6

	VBROADCASTSS alpha+80(FP), Y12
	ADDROW(Y0, Y1)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y2, Y3)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y4, Y5)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y6, Y7)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y8, Y9)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y10, Y11)
	VZEROUPPER
	RET

// func gemm4x16(k int, a *float32, lda, step int, b *float32, ldb int, from *float32, ldfrom int, c *float32, ldc int, alpha float32)
TEXT ·gemm4x16(SB), NOSPLIT, $0-84
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ lda+16(FP), R8
	SHLQ $2, R8
	MOVQ step+24(FP), R12
	SHLQ $2, R12
	MOVQ b+32(FP), DX
	MOVQ ldb+40(FP), R11
	SHLQ $2, R11
	MOVQ from+48(FP), BX
	MOVQ ldfrom+56(FP), R13
	SHLQ $2, R13
	MOVQ c+64(FP), DI
	MOVQ ldc+72(FP), R9
	SHLQ $2, R9
	LEAQ (R8)(R8*2), R10
	ADDQ SI, R10                 // a + 3 rows
	ZERO8

loop4:
	VMOVUPS (DX), Y12
	VMOVUPS 32(DX), Y13
	ROW((SI), Y14, Y0, Y1)
	ROW((SI)(R8*1), Y15, Y2, Y3)
	ROW((SI)(R8*2), Y14, Y4, Y5)
	ROW((R10), Y15, Y6, Y7)
	ADDQ R12, SI
	ADDQ R12, R10
	ADDQ R11, DX
	DECQ CX
	JNZ  loop4

	VBROADCASTSS alpha+80(FP), Y12
	ADDROW(Y0, Y1)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y2, Y3)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y4, Y5)
	ADDQ R13, BX
	ADDQ R9, DI
	ADDROW(Y6, Y7)
	VZEROUPPER
	RET

// func eluAVX2(x *float32, n int)
//
// max(x, 0) + (e^min(x, 0) - 1), by the exponential of siluAVX2.
TEXT ·eluAVX2(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS silu<>+36(SB), Y14
	VBROADCASTSS silu<>+0(SB), Y13
	VBROADCASTSS silu<>+4(SB), Y12
	VBROADCASTSS silu<>+8(SB), Y11
	VPBROADCASTD silu<>+48(SB), Y10
	VBROADCASTSS silu<>+44(SB), Y8
	VXORPS Y7, Y7, Y7

eluloop:
	VMOVUPS (DI), Y0
	VMINPS Y0, Y7, Y1            // the second source where one is not a number
	VMAXPS Y1, Y8, Y1
	VMULPS Y13, Y1, Y2
	VROUNDPS $0, Y2, Y2          // n
	VFNMADD231PS Y12, Y2, Y1
	VFNMADD231PS Y11, Y2, Y1     // r
	VBROADCASTSS silu<>+12(SB), Y3
	VBROADCASTSS silu<>+16(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+20(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+24(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+28(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VBROADCASTSS silu<>+32(SB), Y4
	VFMADD213PS Y4, Y1, Y3
	VFMADD213PS Y14, Y1, Y3
	VFMADD213PS Y14, Y1, Y3      // e^r
	VCVTPS2DQ Y2, Y2
	VPADDD Y10, Y2, Y2
	VPSLLD $23, Y2, Y2           // 2^n
	VFMSUB213PS Y14, Y2, Y3      // e^x - 1
	VMAXPS Y0, Y7, Y0
	VADDPS Y3, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  eluloop
	VZEROUPPER
	RET

DATA eighth<>+0(SB)/4, $0x3e000000
GLOBL eighth<>(SB), RODATA|NOPTR, $4

// func meanOf8AVX2(dst, up, mid, down *float32, d, n int)
TEXT ·meanOf8AVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), SI
	MOVQ mid+16(FP), DX
	MOVQ down+24(FP), R8
	MOVQ d+32(FP), R9
	SHLQ $2, R9
	MOVQ n+40(FP), CX
	VBROADCASTSS eighth<>+0(SB), Y7

meanloop:
	VMOVUPS (SI), Y0
	VADDPS (SI)(R9*1), Y0, Y0
	VADDPS (SI)(R9*2), Y0, Y0
	VADDPS (DX), Y0, Y0
	VADDPS (DX)(R9*2), Y0, Y0
	VADDPS (R8), Y0, Y0
	VADDPS (R8)(R9*1), Y0, Y0
	VADDPS (R8)(R9*2), Y0, Y0
	VMULPS Y7, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, R8
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  meanloop
	VZEROUPPER
	RET

// func fillAVX2(x *float32, n int, v float32)
TEXT ·fillAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS v+16(FP), Y0

fillloop:
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  fillloop
	VZEROUPPER
	RET

// func invSqrtAVX2(x *float32, n int, add float32)
TEXT ·invSqrtAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS add+16(FP), Y1
	VBROADCASTSS silu<>+36(SB), Y2

invloop:
	VADDPS (DI), Y1, Y0
	VSQRTPS Y0, Y0
	VDIVPS Y0, Y2, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  invloop
	VZEROUPPER
	RET

// func pairsAVX2(dw, w, x *float32, xStride int, dz *float32, dzStride, n int, cells *int32, m *float32, t *[8]float32, count int)
// Copies in turns of 32, 8 and the rest, and every cell in each: dw stays in Y1..Y4, w in Y5..Y8.
TEXT ·pairsAVX2(SB), NOSPLIT, $0-88
	MOVQ xStride+24(FP), R10
	SHLQ $2, R10
	MOVQ dzStride+40(FP), R11
	SHLQ $2, R11
	XORQ BX, BX
	MOVQ n+48(FP), CX
	SUBQ $32, CX
	JLT  pairs8

pairs32:
	MOVQ cells+56(FP), R8
	MOVQ m+64(FP), R9
	MOVQ t+72(FP), R13
	MOVQ count+80(FP), R12
	MOVQ w+8(FP), AX
	VMOVUPS (AX)(BX*1), Y5
	VMOVUPS 32(AX)(BX*1), Y6
	VMOVUPS 64(AX)(BX*1), Y7
	VMOVUPS 96(AX)(BX*1), Y8
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4

pairs32cell:
	MOVLQSX (R8), SI
	IMULQ R10, SI
	ADDQ  x+16(FP), SI
	MOVLQSX 4(R8), DI
	IMULQ R11, DI
	ADDQ  dz+32(FP), DI
	VBROADCASTSS (R9), Y0
	VMOVUPS (R13), Y13
	VMOVUPS (SI)(BX*1), Y9
	VMOVUPS 32(SI)(BX*1), Y10
	VMOVUPS 64(SI)(BX*1), Y11
	VMOVUPS 96(SI)(BX*1), Y12
	VMULPS (DI)(BX*1), Y9, Y9
	VMULPS 32(DI)(BX*1), Y10, Y10
	VMULPS 64(DI)(BX*1), Y11, Y11
	VMULPS 96(DI)(BX*1), Y12, Y12
	VFMADD231PS Y0, Y9, Y1
	VFMADD231PS Y5, Y9, Y13
	VFMADD231PS Y0, Y10, Y2
	VFMADD231PS Y6, Y10, Y13
	VFMADD231PS Y0, Y11, Y3
	VFMADD231PS Y7, Y11, Y13
	VFMADD231PS Y0, Y12, Y4
	VFMADD231PS Y8, Y12, Y13
	VMOVUPS Y13, (R13)
	ADDQ $16, R8
	ADDQ $4, R9
	ADDQ $32, R13
	DECQ R12
	JNZ  pairs32cell
	MOVQ dw+0(FP), AX
	VMOVUPS Y1, (AX)(BX*1)
	VMOVUPS Y2, 32(AX)(BX*1)
	VMOVUPS Y3, 64(AX)(BX*1)
	VMOVUPS Y4, 96(AX)(BX*1)
	ADDQ $128, BX
	SUBQ $32, CX
	JGE  pairs32

pairs8:
	ADDQ $24, CX
	JLT  pairs1

pairs8loop:
	MOVQ cells+56(FP), R8
	MOVQ m+64(FP), R9
	MOVQ t+72(FP), R13
	MOVQ count+80(FP), R12
	MOVQ w+8(FP), AX
	VMOVUPS (AX)(BX*1), Y5
	VXORPS Y1, Y1, Y1

pairs8cell:
	MOVLQSX (R8), SI
	IMULQ R10, SI
	ADDQ  x+16(FP), SI
	MOVLQSX 4(R8), DI
	IMULQ R11, DI
	ADDQ  dz+32(FP), DI
	VBROADCASTSS (R9), Y0
	VMOVUPS (R13), Y13
	VMOVUPS (SI)(BX*1), Y9
	VMULPS (DI)(BX*1), Y9, Y9
	VFMADD231PS Y0, Y9, Y1
	VFMADD231PS Y5, Y9, Y13
	VMOVUPS Y13, (R13)
	ADDQ $16, R8
	ADDQ $4, R9
	ADDQ $32, R13
	DECQ R12
	JNZ  pairs8cell
	MOVQ dw+0(FP), AX
	VMOVUPS Y1, (AX)(BX*1)
	ADDQ $32, BX
	SUBQ $8, CX
	JGE  pairs8loop

pairs1:
	ADDQ $8, CX
	JLE  pairsdone
	LEAQ pairsmask<>(SB), AX
	MOVQ $8, DX
	SUBQ CX, DX
	VMOVUPS (AX)(DX*4), Y14
	MOVQ cells+56(FP), R8
	MOVQ m+64(FP), R9
	MOVQ t+72(FP), R13
	MOVQ count+80(FP), R12
	MOVQ w+8(FP), AX
	VMASKMOVPS (AX)(BX*1), Y14, Y5
	VXORPS Y1, Y1, Y1

pairs1cell:
	MOVLQSX (R8), SI
	IMULQ R10, SI
	ADDQ  x+16(FP), SI
	MOVLQSX 4(R8), DI
	IMULQ R11, DI
	ADDQ  dz+32(FP), DI
	VBROADCASTSS (R9), Y0
	VMOVUPS (R13), Y13
	VMASKMOVPS (SI)(BX*1), Y14, Y9
	VMASKMOVPS (DI)(BX*1), Y14, Y10
	VMULPS Y10, Y9, Y9
	VFMADD231PS Y0, Y9, Y1
	VFMADD231PS Y5, Y9, Y13
	VMOVUPS Y13, (R13)
	ADDQ $16, R8
	ADDQ $4, R9
	ADDQ $32, R13
	DECQ R12
	JNZ  pairs1cell
	MOVQ dw+0(FP), AX
	VMASKMOVPS Y1, Y14, (AX)(BX*1)

pairsdone:
	VZEROUPPER
	RET

// Eight lanes that count, then eight that do not: from 8-n on the first n do.
DATA pairsmask<>+0(SB)/4, $0xffffffff
DATA pairsmask<>+4(SB)/4, $0xffffffff
DATA pairsmask<>+8(SB)/4, $0xffffffff
DATA pairsmask<>+12(SB)/4, $0xffffffff
DATA pairsmask<>+16(SB)/4, $0xffffffff
DATA pairsmask<>+20(SB)/4, $0xffffffff
DATA pairsmask<>+24(SB)/4, $0xffffffff
DATA pairsmask<>+28(SB)/4, $0xffffffff
DATA pairsmask<>+32(SB)/4, $0
DATA pairsmask<>+36(SB)/4, $0
DATA pairsmask<>+40(SB)/4, $0
DATA pairsmask<>+44(SB)/4, $0
DATA pairsmask<>+48(SB)/4, $0
DATA pairsmask<>+52(SB)/4, $0
DATA pairsmask<>+56(SB)/4, $0
DATA pairsmask<>+60(SB)/4, $0
GLOBL pairsmask<>(SB), RODATA|NOPTR, $64

// func pack16(dst, src *float32, ld, rows int)
TEXT ·pack16(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), R8
	SHLQ $2, R8
	MOVQ rows+24(FP), CX

pack16loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ R8, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  pack16loop
	VZEROUPPER
	RET

// func pack6(dst, src *float32, ld, rows int)
TEXT ·pack6(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), R8
	SHLQ $2, R8
	MOVQ rows+24(FP), CX

pack6loop:
	VMOVUPS (SI), X0
	VMOVSD 16(SI), X1
	VMOVUPS X0, (DI)
	VMOVSD X1, 16(DI)
	ADDQ R8, SI
	ADDQ $24, DI
	DECQ CX
	JNZ  pack6loop
	RET

// func sumRowsAVX2(dst, src *float32, stride, rows, n int)
// Columns in turns of 64 and 8, every row in each.
TEXT ·sumRowsAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), R8
	SHLQ $2, R8
	MOVQ n+32(FP), BX
	SUBQ $64, BX
	JLT  sum8

sum64:
	MOVQ SI, DX
	MOVQ rows+24(FP), CX
	ZERO8

sum64rows:
	VADDPS (DX), Y0, Y0
	VADDPS 32(DX), Y1, Y1
	VADDPS 64(DX), Y2, Y2
	VADDPS 96(DX), Y3, Y3
	VADDPS 128(DX), Y4, Y4
	VADDPS 160(DX), Y5, Y5
	VADDPS 192(DX), Y6, Y6
	VADDPS 224(DX), Y7, Y7
	ADDQ R8, DX
	DECQ CX
	JNZ  sum64rows
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $64, BX
	JGE  sum64

sum8:
	ADDQ $56, BX
	JLT  sumdone

sum8columns:
	MOVQ SI, DX
	MOVQ rows+24(FP), CX
	VXORPS Y0, Y0, Y0

sum8rows:
	VADDPS (DX), Y0, Y0
	ADDQ R8, DX
	DECQ CX
	JNZ  sum8rows
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, BX
	JGE  sum8columns

sumdone:
	VZEROUPPER
	RET
