// Context switches between the stacks of one OS thread, and the stacks themselves.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define GP_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GP_ASAN 1
#endif
#endif

struct Stack {
  char *low = nullptr; // lowest usable byte, above the guard page
  size_t bytes = 0;
};

// stack_new maps a stack with a guard page below it; low is null when there is no memory.
Stack stack_new();
void stack_free(Stack);

// fiber_prepare returns the saved state of a fiber that, when switched to, calls entry (which never returns).
void *fiber_prepare(Stack, void (*entry)());

// fiber_jump saves the running state in *from and continues the saved state to.
extern "C" void gp_fiber_jump(void **from, void *to);
