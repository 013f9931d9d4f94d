// Counts allocations of a process that it is preloaded into, and prints the number to standard error when the process ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static atomic_ulong count;

void *malloc(size_t size) { atomic_fetch_add_explicit(&count, 1, memory_order_relaxed); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { atomic_fetch_add_explicit(&count, 1, memory_order_relaxed); return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { atomic_fetch_add_explicit(&count, 1, memory_order_relaxed); return __libc_realloc(old, size); }

__attribute__((destructor)) static void say(void) { fprintf(stderr, "%lu\n", atomic_load(&count)); }
