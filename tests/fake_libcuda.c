/* A CUDA driver of two GPUs that runs nothing and records what it is told: plans can be tested without a GPU.
 */
#include "fake_libcuda.h"

#include <string.h>

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONTEXT = 201,
  NO_BINARY = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  STREAM_CAPTURE_UNSUPPORTED = 900
};
enum { LIMIT = 232448, KERNELS = 512, DEPTH = 8 };

typedef struct context {
  int device;
  unsigned long long id;
} context;

/* A kernel of the library, or its function in one context: cuLaunchKernel takes both. */
typedef struct kernel {
  char name[256];
  unsigned long long context; /* 0 for a kernel */
} kernel;

fake_cuda fake = {.compute_major = 9,
                  .compute_minor = 0,
                  .multiprocessors = 132,
                  .ctas_per_multiprocessor = 1,
                  .argument_bytes = 0};
static kernel kernels[KERNELS]; /* and functions */
static int kernel_count;
static char library;
static context primary[FAKE_DEVICES] = {{0, 1}, {1, 2}};
static _Thread_local context other = {0, 3}; /* of device 0 too; with another id it is another one at the same address */
static _Thread_local context* stack[DEPTH]; /* of contexts; the last one is current */
static _Thread_local int depth;

static int count(int* counter) {
  return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

int cuInit(unsigned flags) {
  count(&fake.calls);
  count(&fake.inits);
  return flags == 0 ? SUCCESS : INVALID_VALUE;
}

int cuDriverGetVersion(int* version) {
  count(&fake.calls);
  *version = 13000;
  return SUCCESS;
}

int cuGetErrorName(int error, const char** text) {
  count(&fake.calls);
  *text = error == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_INVALID_VALUE";
  return SUCCESS;
}

int cuGetErrorString(int error, const char** text) {
  count(&fake.calls);
  *text =
      error == NO_BINARY ? "no kernel image is available for execution on the device" : "invalid argument";
  return SUCCESS;
}

int cuDeviceGetCount(int* devices) {
  count(&fake.calls);
  *devices = FAKE_DEVICES;
  return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
  count(&fake.calls);
  *device = ordinal;
  return ordinal >= 0 && ordinal < FAKE_DEVICES ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char* text, int length, int device) {
  count(&fake.calls);
  (void)device;
  strncpy(text, "Fake H200", (size_t)length);
  return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  count(&fake.calls);
  (void)device;
  switch (attribute) {
    case 13:
      *value = 1980000;
      break;
    case 16:
      *value = fake.multiprocessors;
      break;
    case 38:
      *value = 60 << 20;
      break;
    case 75:
      *value = fake.compute_major;
      break;
    case 76:
      *value = fake.compute_minor;
      break;
    case 97:
      *value = LIMIT;
      break;
    default:
      return INVALID_VALUE;
  }
  return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  count(&fake.calls);
  (void)device;
  *bytes = (size_t)141 << 30;
  return SUCCESS;
}

int cuDevicePrimaryCtxRetain(context** to, int device) {
  count(&fake.calls);
  count(&fake.contexts_retained);
  *to = &primary[device];
  return SUCCESS;
}

int cuCtxGetCurrent(context** to) {
  count(&fake.calls);
  *to = depth > 0 ? stack[depth - 1] : NULL;
  return SUCCESS;
}

int cuCtxPushCurrent_v2(context* pushed) {
  count(&fake.calls);
  count(&fake.pushes);
  if (depth == DEPTH) return INVALID_VALUE;
  stack[depth++] = pushed;
  return SUCCESS;
}

int cuCtxPopCurrent_v2(context** popped) {
  count(&fake.calls);
  count(&fake.pops);
  if (depth == 0) return INVALID_CONTEXT;
  *popped = stack[--depth];
  return SUCCESS;
}

int cuCtxGetDevice(int* device) {
  count(&fake.calls);
  if (depth == 0) return INVALID_CONTEXT;
  *device = stack[depth - 1]->device;
  return SUCCESS;
}

int cuCtxGetId(context* of, unsigned long long* id) {
  count(&fake.calls);
  if (of == NULL && depth == 0) return INVALID_CONTEXT;
  *id = (of != NULL ? of : stack[depth - 1])->id;
  return SUCCESS;
}

int cuCtxSynchronize(void) {
  count(&fake.calls);
  count(&fake.waits);
  return SUCCESS;
}

int cuLibraryLoadData(void** loaded, const void* code, int* jit, void** jit_values, unsigned jit_count,
                      int* options, void** values, unsigned option_count) {
  count(&fake.calls);
  (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)option_count;
  if (fake.failing_load || memcmp(code, "\177ELF", 4) != 0) return NO_BINARY;
  if (fake.capturing) return STREAM_CAPTURE_UNSUPPORTED;
  count(&fake.loads);
  *loaded = &library;
  return SUCCESS;
}

int cuLibraryUnload(void* loaded) {
  count(&fake.calls);
  count(&fake.unloads);
  return loaded == &library ? SUCCESS : INVALID_HANDLE;
}

static kernel* new_kernel(const char* name, unsigned long long context_id) {
  if (kernel_count == KERNELS || strlen(name) >= sizeof kernels[0].name) return NULL;
  kernel* made = &kernels[kernel_count++];
  strcpy(made->name, name);
  made->context = context_id;
  return made;
}

static char busy; /* a thread is looking at `kernels` */

static void lock(void) {
  while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {
  }
}

static void unlock(void) {
  __atomic_clear(&busy, __ATOMIC_RELEASE);
}

int cuLibraryGetKernel(kernel** found, void* loaded, const char* name) {
  count(&fake.calls);
  if (loaded != &library) return INVALID_HANDLE;
  lock();
  *found = new_kernel(name, 0);
  unlock();
  return *found != NULL ? SUCCESS : NOT_FOUND;
}

int cuKernelGetFunction(kernel** function, kernel* from) {
  count(&fake.calls);
  if (depth == 0) return INVALID_CONTEXT;
  if (from->context != 0) return INVALID_HANDLE;
  const unsigned long long id = stack[depth - 1]->id;
  lock();
  *function = NULL;
  for (int i = 0; i < kernel_count && *function == NULL; ++i) {
    if (kernels[i].context == id && strcmp(kernels[i].name, from->name) == 0) *function = &kernels[i];
  }
  if (*function == NULL) *function = new_kernel(from->name, id);
  unlock();
  return *function != NULL ? SUCCESS : NOT_FOUND;
}

int cuFuncLoad(void* function) {
  count(&fake.calls);
  count(&fake.functions_loaded);
  return function != NULL ? SUCCESS : INVALID_HANDLE;
}

int cuKernelSetAttribute(int attribute, int value, kernel* of, int device) {
  count(&fake.calls);
  (void)device;
  if (attribute != 8 || value < 0 || value > LIMIT || of == NULL) return INVALID_VALUE;
  count(&fake.attributes_set);
  if (value > fake.largest_dynamic) fake.largest_dynamic = value;
  return SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads,
                                                size_t dynamic_bytes) {
  count(&fake.calls);
  if (function == NULL || threads < 1 || threads > 1024 || dynamic_bytes > LIMIT) return INVALID_VALUE;
  *blocks = fake.ctas_per_multiprocessor;
  return SUCCESS;
}

int cuLaunchKernel(kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) {
  count(&fake.calls);
  if (depth == 0) return INVALID_CONTEXT;
  if (function == NULL || extra != NULL) return INVALID_HANDLE;
  const context* on = stream == FAKE_OTHER_STREAM ? &other : stack[depth - 1];
  if (function->context != 0 && function->context != on->id) return INVALID_HANDLE;
  const int number = count(&fake.launches);
  if (grid_x == 0 || grid_x > 2147483647u || grid_y != 1 || grid_z != 1) return INVALID_VALUE;
  if (block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1 || shared_bytes > LIMIT)
    return INVALID_VALUE;
  if (number == fake.failing_launch) return INVALID_VALUE;
  if (number <= FAKE_LAUNCHES) {
    fake_launch* to = &fake.launch[number - 1];
    strcpy(to->kernel, function->name);
    to->grid = grid_x;
    to->threads = block_x;
    to->shared_bytes = shared_bytes;
    to->stream = stream;
    to->device = on->device;
    to->context = on->id;
    to->is_function = function->context != 0;
    memcpy(to->argument, parameters[0], fake.argument_bytes);
  }
  return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long* pointer, size_t bytes) {
  count(&fake.calls);
  (void)pointer, (void)bytes;
  count(&fake.allocations);
  return OUT_OF_MEMORY;
}

int cuMemFree_v2(unsigned long long pointer) {
  count(&fake.calls);
  return pointer == 0 ? SUCCESS : INVALID_VALUE;
}

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  count(&fake.calls);
  *free_bytes = 0;
  *total_bytes = (size_t)141 << 30;
  return SUCCESS;
}

/* It has no memory to copy. */
int cuMemcpyHtoDAsync_v2(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuMemcpyDtoHAsync_v2(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuMemcpyDtoDAsync_v2(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuMemsetD8Async(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuMemsetD32Async(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}

int cuStreamIsCapturing(void* stream, int* status) {
  count(&fake.calls);
  (void)stream;
  *status = fake.capturing ? 1 : 0;
  return SUCCESS;
}

int cuStreamCreate(void** stream, unsigned flags) {
  count(&fake.calls);
  (void)flags;
  *stream = &library;
  return SUCCESS;
}

int cuStreamSynchronize(void* stream) {
  count(&fake.calls);
  (void)stream;
  count(&fake.waits);
  return SUCCESS;
}

int cuEventSynchronize(void* event) {
  count(&fake.calls);
  (void)event;
  count(&fake.waits);
  return SUCCESS;
}

int cuStreamDestroy_v2(void) {
  count(&fake.calls);
  return SUCCESS;
}
int cuStreamWaitEvent(void) {
  count(&fake.calls);
  return SUCCESS;
}
int cuStreamBeginCapture_v2(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuStreamEndCapture(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuGraphInstantiateWithFlags(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuGraphLaunch(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuGraphExecDestroy(void) {
  count(&fake.calls);
  return SUCCESS;
}
int cuGraphDestroy(void) {
  count(&fake.calls);
  return SUCCESS;
}
int cuEventCreate(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuEventDestroy_v2(void) {
  count(&fake.calls);
  return SUCCESS;
}
int cuEventRecord(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}
int cuEventElapsedTime(void) {
  count(&fake.calls);
  return INVALID_VALUE;
}

void fake_push_other_context(unsigned long long id) {
  other.id = id;
  stack[depth++] = &other;
}

void fake_pop_context(void) {
  --depth;
}

fake_cuda* fake_cuda_state(void) {
  return &fake;
}
