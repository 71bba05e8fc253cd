/* What fake_libcuda.c records and what a test can set: the library exports fake_cuda_state() and the two
 * functions below it. */
#ifndef SMLA_TESTS_FAKE_LIBCUDA_H
#define SMLA_TESTS_FAKE_LIBCUDA_H

#include <stddef.h>

enum { FAKE_LAUNCHES = 64, FAKE_ARGUMENT_BYTES = 1024, FAKE_DEVICES = 2 };

/* A stream of a second context of device 0; all others are of the context that is current. */
#define FAKE_OTHER_STREAM ((void*)0x7000)

typedef struct fake_launch {
  char kernel[256];
  unsigned grid, threads, shared_bytes;
  void* stream;
  int device;                 /* of the stream's context */
  unsigned long long context; /* its identity; 1, 2: primary ones of devices 0, 1 */
  int is_function;            /* else a kernel, which the driver would look up */
  unsigned char argument[FAKE_ARGUMENT_BYTES];
} fake_launch;

typedef struct fake_cuda {
  /* Set by a test. */
  int compute_major, compute_minor; /* 9.0 at first */
  int multiprocessors;              /* 132 */
  int ctas_per_multiprocessor;      /* 1 */
  int capturing;                    /* streams are being captured */
  int failing_launch;               /* number of the launch, from 1, that is refused; 0: none */
  int failing_load;                 /* cuLibraryLoadData is refused */
  size_t argument_bytes;            /* of a kernel's parameter */

  /* Recorded. */
  int launches; /* of which the first FAKE_LAUNCHES are kept */
  fake_launch launch[FAKE_LAUNCHES];
  int inits, loads, unloads, functions_loaded, attributes_set, contexts_retained, pushes, pops;
  int allocations;     /* of device memory */
  int waits;           /* synchronisations of any kind */
  int largest_dynamic; /* of cuKernelSetAttribute, bytes */
  int calls;           /* of driver functions, all together */
} fake_cuda;

fake_cuda* fake_cuda_state(void);
void fake_push_other_context(unsigned long long id); /* a second context of device 0, the thread's own */
void fake_pop_context(void);

#endif
