#include "textflag.h"

// Constants of exp(t) = 2^n e^r with n = round(t log2 e), r = t - n ln 2: the
// Taylor-like minimax polynomial of degree 7 whose last two coefficients are 1.
DATA gru<>+0(SB)/4, $1.44269504088896341   // log2 e
DATA gru<>+4(SB)/4, $-0.693359375          // -ln 2, high part
DATA gru<>+8(SB)/4, $2.12194440054690583e-4 // -ln 2, low part
DATA gru<>+12(SB)/4, $1.9875691500e-4
DATA gru<>+16(SB)/4, $1.3981999507e-3
DATA gru<>+20(SB)/4, $8.3334519073e-3
DATA gru<>+24(SB)/4, $4.1665795894e-2
DATA gru<>+28(SB)/4, $1.6666665459e-1
DATA gru<>+32(SB)/4, $5.0000001201e-1
DATA gru<>+36(SB)/4, $1.0
DATA gru<>+40(SB)/4, $87.0                  // exp(87) is finite, and so is its inverse
DATA gru<>+44(SB)/4, $-87.0
DATA gru<>+48(SB)/4, $127                   // exponent bias

// tanh(x) = x + x^3 P(x^2) below the limit, where 1 - 2/(exp(2x)+1) would
// cancel.
DATA gru<>+52(SB)/4, $-5.70498872745e-3
DATA gru<>+56(SB)/4, $2.06390887954e-2
DATA gru<>+60(SB)/4, $-5.37397155531e-2
DATA gru<>+64(SB)/4, $1.33314422036e-1
DATA gru<>+68(SB)/4, $-3.33332819422e-1
DATA gru<>+72(SB)/4, $0.625
DATA gru<>+76(SB)/4, $0x7fffffff            // clears the sign
GLOBL gru<>(SB), RODATA|NOPTR, $80

#define CONSTANTS \
	VBROADCASTSS gru<>+0(SB), Y13  \
	VBROADCASTSS gru<>+4(SB), Y12  \
	VBROADCASTSS gru<>+8(SB), Y11  \
	VPBROADCASTD gru<>+48(SB), Y10 \
	VBROADCASTSS gru<>+40(SB), Y9  \
	VBROADCASTSS gru<>+44(SB), Y8  \
	VXORPS Y7, Y7, Y7              \
	VBROADCASTSS gru<>+36(SB), Y14

// EXP1: Y3 = 1 + exp(Y1); uses Y1, Y2, Y4. The clamp keeps what is not a
// number: VMINPS and VMAXPS return their second source, the first operand
// here, where one is not.
#define EXP1 \
	VMINPS Y1, Y9, Y1                 \
	VMAXPS Y1, Y8, Y1                 \
	VMULPS Y13, Y1, Y2                \
	VROUNDPS $0, Y2, Y2               \
	VFMADD231PS Y12, Y2, Y1           \
	VFMADD231PS Y11, Y2, Y1           \
	VBROADCASTSS gru<>+12(SB), Y3     \
	VBROADCASTSS gru<>+16(SB), Y4     \
	VFMADD213PS Y4, Y1, Y3            \
	VBROADCASTSS gru<>+20(SB), Y4     \
	VFMADD213PS Y4, Y1, Y3            \
	VBROADCASTSS gru<>+24(SB), Y4     \
	VFMADD213PS Y4, Y1, Y3            \
	VBROADCASTSS gru<>+28(SB), Y4     \
	VFMADD213PS Y4, Y1, Y3            \
	VBROADCASTSS gru<>+32(SB), Y4     \
	VFMADD213PS Y4, Y1, Y3            \
	VFMADD213PS Y14, Y1, Y3           \
	VFMADD213PS Y14, Y1, Y3           \
	VCVTPS2DQ Y2, Y2                  \
	VPADDD Y10, Y2, Y2                \
	VPSLLD $23, Y2, Y2                \
	VFMADD213PS Y14, Y2, Y3

// SIGMOID: Y0 = 1/(1 + exp(-Y0)).
#define SIGMOID \
	VSUBPS Y0, Y7, Y1   \
	EXP1                \
	VDIVPS Y3, Y14, Y0

// TANH: Y0 = tanh(Y0); uses Y1 to Y6.
#define TANH \
	VADDPS Y0, Y0, Y1                 \
	EXP1                              \
	VADDPS Y14, Y14, Y4               \
	VDIVPS Y3, Y4, Y3                 \
	VSUBPS Y3, Y14, Y3                \
	VMULPS Y0, Y0, Y1                 \
	VBROADCASTSS gru<>+52(SB), Y4     \
	VBROADCASTSS gru<>+56(SB), Y5     \
	VFMADD213PS Y5, Y1, Y4            \
	VBROADCASTSS gru<>+60(SB), Y5     \
	VFMADD213PS Y5, Y1, Y4            \
	VBROADCASTSS gru<>+64(SB), Y5     \
	VFMADD213PS Y5, Y1, Y4            \
	VBROADCASTSS gru<>+68(SB), Y5     \
	VFMADD213PS Y5, Y1, Y4            \
	VMULPS Y0, Y1, Y1                 \
	VFMADD213PS Y0, Y1, Y4            \
	VBROADCASTSS gru<>+76(SB), Y5     \
	VANDPS Y5, Y0, Y5                 \
	VBROADCASTSS gru<>+72(SB), Y6     \
	VCMPPS $17, Y6, Y5, Y5            \
	VBLENDVPS Y5, Y4, Y3, Y0

// The places of the fields of keptCells, in bytes.
#define C_GX 0
#define C_GH 24
#define C_KEPT 48
#define C_BEFORE 72
#define C_AFTER 96
#define C_DOUT 120
#define C_DH 144
#define C_CHAIN 168
#define C_BACK 192
#define C_STRIDE 216
#define C_KEPTSTRIDE 224

// KEPTCELLS: gx in SI, gh in DX, before in BX, kept in R11 with three of its strides in R9 and
// one in R10, the others' stride in R8, the units in CX.
#define KEPTCELLS \
	MOVQ c+0(FP), AX \
	MOVQ n+8(FP), CX \
	MOVQ C_GX(AX), SI \
	MOVQ C_GH(AX), DX \
	MOVQ C_BEFORE(AX), BX \
	MOVQ C_KEPT(AX), R11 \
	MOVQ C_STRIDE(AX), R8 \
	SHLQ $2, R8 \
	MOVQ C_KEPTSTRIDE(AX), R10 \
	SHLQ $2, R10 \
	LEAQ (R10)(R10*2), R9

// func sigmoidAVX2(x *float32, n int)
TEXT ·sigmoidAVX2(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	CONSTANTS

sigmoidloop:
	VMOVUPS (DI), Y0
	SIGMOID
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  sigmoidloop
	VZEROUPPER
	RET

// func tanhAVX2(x *float32, n int)
TEXT ·tanhAVX2(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	CONSTANTS

tanhloop:
	VMOVUPS (DI), Y0
	TANH
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  tanhloop
	VZEROUPPER
	RET

// func cellAVX2(gx, gh, h *float32, stride, n int)
TEXT ·cellAVX2(SB), NOSPLIT, $0-40
	MOVQ gx+0(FP), SI
	MOVQ gh+8(FP), DX
	MOVQ h+16(FP), DI
	MOVQ stride+24(FP), R8
	SHLQ $2, R8
	MOVQ n+32(FP), CX
	CONSTANTS

cellloop:
	VMOVUPS (SI), Y0             // r
	VADDPS (DX), Y0, Y0
	SIGMOID
	VMOVUPS (DX)(R8*2), Y15      // n
	VFMADD213PS (SI)(R8*2), Y15, Y0
	TANH
	VMOVAPS Y0, Y15
	VMOVUPS (SI)(R8*1), Y0       // z
	VADDPS (DX)(R8*1), Y0, Y0
	SIGMOID
	VMOVUPS (DI), Y1
	VSUBPS Y15, Y1, Y1           // h - n
	VFMADD213PS Y15, Y1, Y0      // n + z (h - n)
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  cellloop
	VZEROUPPER
	RET

// func dotAVX2(a, b *float32, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DX
	MOVQ n+16(FP), CX
	VXORPS Y0, Y0, Y0

dotloop:
	VMOVUPS (SI), Y1
	VFMADD231PS (DX), Y1, Y0
	ADDQ $32, SI
	ADDQ $32, DX
	SUBQ $8, CX
	JNZ  dotloop
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VHADDPS X0, X0, X0
	VHADDPS X0, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func keepAVX2(c *keptCells, n int)
TEXT ·keepAVX2(SB), NOSPLIT, $0-16
	KEPTCELLS
	MOVQ C_AFTER(AX), DI
	CONSTANTS

keeploop:
	VMOVUPS (SI), Y0             // r
	VADDPS (DX), Y0, Y0
	SIGMOID
	VMOVUPS Y0, (R11)
	VMOVUPS (DX)(R8*2), Y15      // u
	VMOVUPS Y15, (R11)(R9*1)
	VMULPS Y15, Y0, Y0
	VADDPS (SI)(R8*2), Y0, Y0
	TANH
	VMOVUPS Y0, (R11)(R10*2)
	VMOVAPS Y0, Y15
	VMOVUPS (SI)(R8*1), Y0       // z
	VADDPS (DX)(R8*1), Y0, Y0
	SIGMOID
	VMOVUPS Y0, (R11)(R10*1)
	VMOVUPS (BX), Y1
	VSUBPS Y15, Y1, Y1           // h - n
	VMULPS Y1, Y0, Y0
	VADDPS Y15, Y0, Y0           // n + z (h - n)
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, BX
	ADDQ $32, R11
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  keeploop
	VZEROUPPER
	RET

// func backAVX2(c *keptCells, n int)
TEXT ·backAVX2(SB), NOSPLIT, $0-16
	KEPTCELLS
	MOVQ C_DOUT(AX), R12
	MOVQ C_DH(AX), R13
	MOVQ C_BACK(AX), DI
	MOVQ C_CHAIN(AX), AX
	VBROADCASTSS gru<>+36(SB), Y14

backloop:
	VMOVUPS (R13), Y0            // d
	VADDPS (AX), Y0, Y0
	TESTQ R12, R12
	JZ   nodout
	VADDPS (R12), Y0, Y0
	ADDQ $32, R12

nodout:
	VMOVUPS (R11)(R10*1), Y1     // z
	VMOVUPS (R11)(R10*2), Y2     // n
	VMOVUPS (R11), Y3            // r
	VSUBPS Y1, Y14, Y4           // 1 - z
	VMULPS Y2, Y2, Y5
	VSUBPS Y5, Y14, Y5           // 1 - n^2
	VMULPS Y4, Y0, Y6
	VMULPS Y5, Y6, Y6            // an
	VMULPS (R11)(R9*1), Y6, Y7
	VMULPS Y3, Y7, Y7
	VSUBPS Y3, Y14, Y8
	VMULPS Y8, Y7, Y7            // ar = an u r (1 - r)
	VMOVUPS (BX), Y9
	VSUBPS Y2, Y9, Y9            // h - n
	VMULPS Y9, Y0, Y9
	VMULPS Y1, Y9, Y9
	VMULPS Y4, Y9, Y9            // az = d (h - n) z (1 - z)
	VMULPS Y3, Y6, Y10           // an r
	VMULPS Y1, Y0, Y0            // d z
	VMOVUPS Y7, (SI)
	VMOVUPS Y9, (SI)(R8*1)
	VMOVUPS Y6, (SI)(R8*2)
	VMOVUPS Y7, (DX)
	VMOVUPS Y9, (DX)(R8*1)
	VMOVUPS Y10, (DX)(R8*2)
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, BX
	ADDQ $32, R11
	ADDQ $32, R13
	ADDQ $32, AX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  backloop
	VZEROUPPER
	RET
