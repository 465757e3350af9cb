// Faults of kernels: an invalid access ends the kernel, as on a GPU, and not the process.
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "exec_internal.h"

static const size_t signal_stack_bytes = 64 << 10;

#ifdef GP_ASAN

void catch_faults() {} // AddressSanitizer reports them, with the line

#else

static struct sigaction previous[NSIG];

// on_fault leaves a running kernel; anything else is for whoever handled the signal before.
static void on_fault(int sig, siginfo_t *info, void *context) {
  Exec *e = exec;
  if (e && e->running && e->self) {
    bool access = sig == SIGSEGV || sig == SIGBUS;
    if (e->out->fault == 0) e->out->fault = access ? error_illegal_address : error_launch_failed;
    char s[200];
    if (access) snprintf(s, sizeof s, "kernel %s: invalid access to %p by ", e->launch->kernel->name, info->si_addr);
    else snprintf(s, sizeof s, "kernel %s: %s in ", e->launch->kernel->name, sig == SIGFPE ? "integer division by zero" : "invalid instruction");
    e->out->text = s + at(gp_sim_here.thread, gp_sim_here.block);
    siglongjmp(e->escape, 1);
  }
  struct sigaction *p = &previous[sig];
  if (p->sa_flags & SA_SIGINFO) {
    p->sa_sigaction(sig, info, context);
  } else if (p->sa_handler != SIG_IGN && p->sa_handler != SIG_DFL) {
    p->sa_handler(sig);
  } else {
    signal(sig, SIG_DFL);
    raise(sig);
  }
}

void catch_faults() {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_sigaction = on_fault;
  a.sa_flags = SA_SIGINFO | SA_ONSTACK; // Go's threads need the alternate stack
  sigfillset(&a.sa_mask);
  for (int sig : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(sig, &a, &previous[sig]);
}

#endif

void need_signal_stack(Exec *e) {
#ifndef GP_ASAN
  if (e->signal_stack) return;
  e->signal_stack = mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t s;
  memset(&s, 0, sizeof s);
  s.ss_sp = e->signal_stack;
  s.ss_size = signal_stack_bytes;
  sigaltstack(&s, nullptr);
#else
  (void)e;
#endif
}

void free_signal_stack(Exec *e) {
  if (!e->signal_stack) return;
  stack_t off;
  memset(&off, 0, sizeof off);
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
  munmap(e->signal_stack, signal_stack_bytes);
  e->signal_stack = nullptr;
}
