#include "fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef GP_ASAN
#include <sanitizer/asan_interface.h>
// Frames are padded with red zones.
static const size_t stack_bytes = 256 << 10;
#else
static const size_t stack_bytes = 64 << 10;
#endif

Stack stack_new() {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *p = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return {};
  mprotect(p, page, PROT_NONE);
  return {(char *)p + page, stack_bytes};
}

void stack_free(Stack s) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!s.low) return;
#ifdef GP_ASAN
  // A fiber left in the middle of a kernel leaves its marks, and whatever is mapped here next would bear them: a
  // library too, whose pages the loader maps without AddressSanitizer seeing it.
  ASAN_UNPOISON_MEMORY_REGION(s.low, s.bytes);
#endif
  munmap(s.low - page, s.bytes + page);
}

#if defined(__x86_64__)

// Saved: the six registers that a call preserves; the control words are never changed by kernels.
asm(R"(
	.text
	.globl	gp_fiber_jump
	.hidden	gp_fiber_jump
	.type	gp_fiber_jump, @function
gp_fiber_jump:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	gp_fiber_jump, .-gp_fiber_jump
)");

void *fiber_prepare(Stack s, void (*entry)()) {
  // Six registers, the entry as the return address, and a zero where entry's own would be: the stack pointer is
  // 8 off a multiple of 16 at entry, as after a call.
  uint64_t *top = (uint64_t *)(((uintptr_t)s.low + s.bytes) & ~(uintptr_t)15);
  uint64_t *sp = top - 8;
  memset(sp, 0, 8 * sizeof *sp);
  sp[6] = (uint64_t)(uintptr_t)entry;
  return sp;
}

#elif defined(__aarch64__)

asm(R"(
	.text
	.globl	gp_fiber_jump
	.hidden	gp_fiber_jump
	.type	gp_fiber_jump, %function
gp_fiber_jump:
	sub	sp, sp, #176
	stp	x19, x20, [sp, #0]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x9, sp
	str	x9, [x0]
	mov	sp, x1
	ldp	x19, x20, [sp, #0]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	add	sp, sp, #176
	ret
	.size	gp_fiber_jump, .-gp_fiber_jump
)");

void *fiber_prepare(Stack s, void (*entry)()) {
  uint64_t *top = (uint64_t *)(((uintptr_t)s.low + s.bytes) & ~(uintptr_t)15);
  uint64_t *sp = top - 22;
  memset(sp, 0, 22 * sizeof *sp);
  sp[11] = (uint64_t)(uintptr_t)entry; // x30, where ret goes
  return sp;
}

#else

#include <ucontext.h>

// Elsewhere the C library switches: a system call each, but correct. The context lies at the top of the stack.
void *fiber_prepare(Stack s, void (*entry)()) {
  ucontext_t *c = (ucontext_t *)(((uintptr_t)s.low + s.bytes - sizeof(ucontext_t)) & ~(uintptr_t)63);
  getcontext(c);
  c->uc_stack.ss_sp = s.low;
  c->uc_stack.ss_size = (size_t)((char *)c - s.low);
  c->uc_link = nullptr;
  makecontext(c, entry, 0);
  return c;
}

extern "C" void gp_fiber_jump(void **from, void *to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, (ucontext_t *)to);
}

#endif
