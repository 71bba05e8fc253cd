// The part of the CUDA driver's binary interface that smla uses, declared by ourselves: no CUDA header is
// included anywhere, so the build needs no toolkit. Values and layouts are those of libcuda.so.1, which keeps
// them stable.
#pragma once

#include <cstddef>

namespace smla::core::cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;

using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;  // null: the legacy default stream of the current context
using Event = struct EventHandle*;
using Library = struct LibraryHandle*;
using Kernel = struct KernelHandle*;
using Function = struct FunctionHandle*;
using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;

constexpr Result kSuccess = 0;
constexpr Result kErrorNotInitialized = 3;
constexpr Result kErrorNoDevice = 100;
constexpr Result kErrorInvalidContext = 201;
constexpr Result kErrorNoBinaryForGpu = 209;
constexpr Result kErrorInvalidHandle = 400;
constexpr Result kErrorStreamCaptureImplicit = 906;

enum DeviceAttribute : int {
  kMaxSharedMemoryPerBlock = 8,
  kClockRate = 13,  // kHz
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,  // bytes
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum FunctionAttribute : int { kMaxDynamicSharedSizeBytes = 8 };

enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0;

// Every driver function that smla calls. driver.cpp names the exported symbols.
struct Functions {
  Result (*init)(unsigned flags) = nullptr;
  Result (*driver_get_version)(int* version) = nullptr;
  Result (*get_error_name)(Result error, const char** text) = nullptr;
  Result (*get_error_string)(Result error, const char** text) = nullptr;
  Result (*device_get_count)(int* count) = nullptr;
  Result (*device_get)(Device* device, int ordinal) = nullptr;
  Result (*device_get_name)(char* text, int length, Device device) = nullptr;
  Result (*device_get_attribute)(int* value, int attribute, Device device) = nullptr;
  Result (*device_total_mem)(std::size_t* bytes, Device device) = nullptr;
  Result (*primary_context_retain)(Context* context, Device device) = nullptr;
  Result (*context_get_current)(Context* context) = nullptr;
  Result (*context_push_current)(Context context) = nullptr;
  Result (*context_pop_current)(Context* context) = nullptr;
  Result (*context_get_device)(Device* device) = nullptr;
  Result (*context_get_id)(Context context, unsigned long long* id) = nullptr;  // null: of the current one
  Result (*context_synchronize)() = nullptr;
  Result (*library_load_data)(Library* library, const void* code, int* jit_options, void** jit_values,
                              unsigned jit_count, int* library_options, void** library_values,
                              unsigned library_count) = nullptr;
  Result (*library_unload)(Library library) = nullptr;
  Result (*library_get_kernel)(Kernel* kernel, Library library, const char* name) = nullptr;
  Result (*kernel_get_function)(Function* function, Kernel kernel) = nullptr;
  Result (*kernel_set_attribute)(int attribute, int value, Kernel kernel, Device device) = nullptr;
  Result (*max_active_blocks)(int* blocks, Function function, int threads,
                              std::size_t dynamic_shared_bytes) = nullptr;
  Result (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared_bytes,
                          Stream stream, void** parameters, void** extra) = nullptr;
  Result (*mem_alloc)(DevicePointer* pointer, std::size_t bytes) = nullptr;
  Result (*mem_free)(DevicePointer pointer) = nullptr;
  Result (*mem_get_info)(std::size_t* free_bytes, std::size_t* total_bytes) = nullptr;
  Result (*memcpy_to_device)(DevicePointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  Result (*memcpy_to_host)(void* to, DevicePointer from, std::size_t bytes, Stream stream) = nullptr;
  Result (*memcpy_on_device)(DevicePointer to, DevicePointer from, std::size_t bytes,
                             Stream stream) = nullptr;
  Result (*memset_bytes)(DevicePointer to, unsigned char value, std::size_t count, Stream stream) = nullptr;
  Result (*memset_words)(DevicePointer to, unsigned value, std::size_t count, Stream stream) = nullptr;
  Result (*stream_create)(Stream* stream, unsigned flags) = nullptr;
  Result (*stream_destroy)(Stream stream) = nullptr;
  Result (*stream_synchronize)(Stream stream) = nullptr;
  Result (*stream_wait_event)(Stream stream, Event event, unsigned flags) = nullptr;
  Result (*stream_is_capturing)(Stream stream, int* status) = nullptr;
  Result (*stream_begin_capture)(Stream stream, int mode) = nullptr;
  Result (*stream_end_capture)(Stream stream, Graph* graph) = nullptr;
  Result (*graph_instantiate)(GraphExec* instance, Graph graph, unsigned long long flags) = nullptr;
  Result (*graph_launch)(GraphExec instance, Stream stream) = nullptr;
  Result (*graph_exec_destroy)(GraphExec instance) = nullptr;
  Result (*graph_destroy)(Graph graph) = nullptr;
  Result (*event_create)(Event* event, unsigned flags) = nullptr;
  Result (*event_destroy)(Event event) = nullptr;
  Result (*event_record)(Event event, Stream stream) = nullptr;
  Result (*event_synchronize)(Event event) = nullptr;
  Result (*event_elapsed_time)(float* milliseconds, Event begin, Event end) = nullptr;
  // Since CUDA 12.4, else null: loads a lazily loaded function at once.
  Result (*function_load)(Function function) = nullptr;
};

}  // namespace smla::core::cuda
