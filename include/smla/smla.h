/* smla: the backward of sparse multi-head latent attention (DeepSeek Sparse Attention), as kernels generated
 * for one problem and compiled at run time. C API: C99, no CUDA header.
 *
 *   smla_problem problem;  smla_problem_init(&problem);  problem.heads = 64;
 *   smla_plan* plan;       smla_plan_create(&plan, &problem, NULL, 0, stream);
 *   smla_call call;        smla_call_init(&call, &problem, B, S, S_kv, topk);
 *   call.scale = smla_default_scale(&problem);
 *   call.q.data = q; ...
 *   smla_workspace_size(plan, &call.lengths, &call.workspace_bytes);
 *   call.workspace = ...;  call.stream = stream;
 *   smla_run(plan, &call);
 *
 * Symbols: B batch entries, S query tokens, S_kv kv rows, H query heads, G kv groups (head h belongs to group
 * h / (H / G)), d_qk = d_v + d_tail. "Operand type" is the problem's dtype.
 *
 * Every function may be called from any thread at any time. Every function that returns a smla_status leaves
 * a sentence for people in smla_last_error() when that is not SMLA_SUCCESS. No function throws.
 *
 * smla_problem, smla_config and smla_call begin with struct_size, which the *_init functions set. Later
 * versions append fields to them; a program that was built with an older header passes a smaller size, and
 * the fields that it lacks have their defaults. A larger size than the library knows is accepted while the
 * unknown bytes are all zero. smla_lengths and smla_tensor never grow. Fields named reserved are 0.
 *
 * Loading the library touches no GPU. Kernels stay loaded for as long as the process lives, and the library
 * cannot be unloaded. */
#ifndef SMLA_SMLA_H
#define SMLA_SMLA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SMLA_API __attribute__((visibility("default")))
#else
#define SMLA_API
#endif

#define SMLA_VERSION_MAJOR 0
#define SMLA_VERSION_MINOR 1
#define SMLA_VERSION_PATCH 0

/* What became of a call; smla_last_error() has the sentence. */
typedef enum smla_status {
  SMLA_SUCCESS = 0,
  SMLA_INVALID_ARGUMENT = 1, /* a value that can never work: a negative length, a misaligned pointer */
  SMLA_NOT_SUPPORTED =
      2, /* a sound request that no schedule can run; the sentence names the nearest that works */
  SMLA_NO_DRIVER = 3,      /* libcuda.so.1 was not found, or no usable GPU */
  SMLA_NO_COMPILER = 4,    /* NVRTC was not found, or is too old for the GPU */
  SMLA_COMPILE_FAILED = 5, /* NVRTC refused the generated text: a defect of smla */
  SMLA_NOT_CACHED = 6,     /* SMLA_JIT=off and the kernels are in no cache */
  SMLA_CUDA_ERROR = 7,     /* the driver refused a call */
  SMLA_CAPTURING = 8,     /* kernels would have to be compiled or loaded while the stream is being captured */
  SMLA_INTERNAL_ERROR = 9 /* everything else, among it running out of memory */
} smla_status;

typedef enum smla_dtype { SMLA_BF16 = 0, SMLA_FP16 = 1 } smla_dtype;
typedef enum smla_lse_base { SMLA_LSE_BASE_2 = 0, SMLA_LSE_BASE_E = 1 } smla_lse_base;
typedef enum smla_d_kv_type { SMLA_D_KV_OPERAND = 0, SMLA_D_KV_FP32 = 1 } smla_d_kv_type;
typedef enum smla_accumulate { SMLA_ACCUMULATE_FP32 = 0, SMLA_ACCUMULATE_PARTIAL = 1 } smla_accumulate;
typedef enum smla_schedule {
  SMLA_SCHEDULE_AUTO = 0,
  SMLA_SCHEDULE_CP_ASYNC = 1,  /* sm_80 and later, every shape */
  SMLA_SCHEDULE_WGMMA = 2,     /* sm_90a, every shape */
  SMLA_SCHEDULE_WGMMA_PAIR = 3 /* sm_90a, bf16 with fp32 sums, 65 to 128 heads a kv group or another even
                                  number of blocks of 64: two CTAs a token, whose halves of d_kv meet in bf16.
                                  Chosen where it can be */
} smla_schedule;
typedef enum smla_order {
  SMLA_ORDER_AUTO = 0,            /* by S_kv: see smla_plan_describe */
  SMLA_ORDER_CALLERS = 1,         /* lists as they stand (up to 32 heads on sm_90a, whose tokens share a list: in row
                                     order, unswept); d_q repeats bit for bit on a GPU */
  SMLA_ORDER_SORTED = 2,          /* sorted by row, all CTAs sweep the same band of rows */
  SMLA_ORDER_SORTED_THROTTLED = 3 /* the same with prefetch and a throttle */
} smla_order;
typedef enum smla_log_level {
  SMLA_LOG_DEBUG = 0,
  SMLA_LOG_INFO = 1,
  SMLA_LOG_WARNING = 2,
  SMLA_LOG_ERROR = 3
} smla_log_level;

/* What is computed. The enums are stored as int32_t; flags are 0 or 1, and another value is refused. */
typedef struct smla_problem {
  size_t struct_size;
  int32_t heads;           /* H: 1 .. 128, and multiples of 64 above. Has to be set */
  int32_t kv_groups;       /* G, a divisor of H. Default 1 */
  int32_t d_v;             /* columns of V. Default 512, and only 512 works */
  int32_t d_tail;          /* columns of a kv row behind V: 64 (default) or 0 */
  int32_t dtype;           /* smla_dtype of q, kv, o, d_o, d_q. Default SMLA_BF16 */
  int32_t causal;          /* 1: an entry counts only when index <= s + query_offset. Default 0 */
  int32_t has_sink;        /* 1: attn_sink and d_sink. Default 0 */
  int32_t has_topk_length; /* 1: topk_length. Default 0 */
  int32_t has_delta; /* 1: the caller brings delta = sum over d_v of o * d_o, and o is not read. Default 0 */
  int32_t lse_base;  /* smla_lse_base. Default SMLA_LSE_BASE_2 (TileLang); FlashMLA saves base e */
  int32_t lse_includes_sink; /* 1: lse has the sink in it. Default 0 */
  int32_t d_kv_type;         /* smla_d_kv_type. Default SMLA_D_KV_OPERAND */
  int32_t accumulate;        /* smla_accumulate. Default SMLA_ACCUMULATE_FP32; partial: see README */
  int32_t deterministic;     /* 1: d_q and d_kv repeat bit for bit; twice the workspace for sums. Default 0 */
} smla_problem;

/* How it is computed: 0 everywhere (the default, and what a null smla_config* means) lets smla choose. A
 * forced value is honoured or refused with the nearest that works. */
typedef struct smla_config {
  size_t struct_size;
  int32_t schedule;   /* smla_schedule */
  int32_t block_h;    /* heads a CTA */
  int32_t block_size; /* kv rows a step */
  int32_t stages;     /* buffers of kv rows */
  int32_t threads;    /* a CTA */
  int32_t reserved;   /* 0 */
} smla_config;

/* The lengths of one call, each 0 .. 2^31 - 1. They need no other kernel: 50 sequence lengths compile once.
 */
typedef struct smla_lengths {
  int64_t batch;       /* B */
  int64_t queries;     /* S */
  int64_t keys;        /* S_kv */
  int64_t topk;        /* entries of a list; may exceed S_kv */
  int32_t order;       /* smla_order. It is here because the workspace depends on it. 0 is SMLA_ORDER_AUTO */
  int32_t reserved[3]; /* 0 */
} smla_lengths;

/* Device memory seen as [batch, token, head, columns]. The columns are contiguous; strides are those of
 * batch, token (query token or kv row) and head (query head or kv group), in elements. They are not negative,
 * and not looked at where the dimension has length 1. data may be null when the tensor is empty. */
typedef struct smla_tensor {
  void* data;
  int64_t strides[3];
} smla_tensor;

/* One call. Pointers and outer strides of q, kv, o, d_o, d_q and d_kv are multiples of 16 bytes; everything
 * else is naturally aligned. Inputs may have stride 0 (an expanded tensor); outputs must not overlap
 * anything. */
typedef struct smla_call {
  size_t struct_size;
  smla_lengths lengths;

  /* Inputs */
  smla_tensor q;   /* [B, S, H, d_qk], operand type */
  smla_tensor kv;  /* [B, S_kv, G, d_qk], operand type */
  smla_tensor o;   /* [B, S, H, d_v], operand type, what the forward saved; may be null with has_delta */
  smla_tensor d_o; /* [B, S, H, d_v], operand type */
  smla_tensor
      indices; /* [B, S, G, topk] int32: rows of kv of the same batch entry. Others, -1 too, are ignored */
  smla_tensor
      topk_length; /* [B, S, G] int32, head stride 0 for one a token: entries of a list that count, clamped */
  smla_tensor lse; /* [B, S, H] fp32 */
  smla_tensor delta;     /* [B, S, H] fp32 */
  const void* attn_sink; /* [H] fp32, contiguous, natural units */

  /* Outputs: written whole, never accumulated into */
  smla_tensor d_q;  /* [B, S, H, d_qk], operand type */
  smla_tensor d_kv; /* [B, S_kv, G, d_qk], operand type or fp32 (d_kv_type) */
  void* d_sink;     /* [H] fp32, contiguous */

  float scale;          /* softmax scale. smla_call_init sets NaN, which is refused: it has to be set */
  int32_t reserved;     /* 0 */
  int64_t query_offset; /* global position of query row 0, for causal. Default 0; at most +-(2^31 - 1) */

  void* workspace;        /* device memory, aligned to 256 bytes; its contents do not matter */
  size_t workspace_bytes; /* at least smla_workspace_size; with lists below, less smla_lists_size */
  void* stream;           /* a CUstream (= cudaStream_t). Default NULL: the legacy default stream */

  /* What the list pre-pass writes: the lists as the kernels read them, a function of indices, topk_length,
   * query_offset, lengths and plan alone. Memory of the caller outlives the call, and a second backward over
   * the same lists does without the pre-pass. Where smla_lists_size is 0 these three are not looked at, so
   * that calls of any lengths can be written alike. */
  void* lists;             /* device memory, aligned to 256 bytes, written unless it is ready; it overlaps
                              nothing. Default NULL: in the workspace, for this call alone */
  size_t lists_bytes;      /* at least smla_lists_size */
  int32_t lists_are_ready; /* 1: an earlier call wrote `lists`, with the same plan, lengths, query_offset and
                              contents of indices and topk_length, and its work comes before this call's (same
                              stream, or an event). Not checked: other lists give wrong gradients. Refused
                              without lists. Default 0 */
  int32_t reserved2;       /* 0 */
} smla_call;

typedef struct smla_plan smla_plan; /* a problem made ready on one device; immutable */

/* "0.1.0" */
SMLA_API const char* smla_version(void);

/* "not supported"; "unknown status" for anything else. */
SMLA_API const char* smla_status_name(int status);

/* The sentence of this thread's last failed call; empty when its last call succeeded or there was none. Valid
 * until this thread's next call. */
SMLA_API const char* smla_last_error(void);

/* Replaces the receiver of warnings and notes; NULL restores the default, which prints warnings to stderr
 * (SMLA_LOG sets the threshold: debug, info, warning, error, off). `message` ends without a newline and is
 * valid during the call. The callback may be called from any thread and must not throw. */
typedef void (*smla_log_callback)(void* user, smla_log_level level, const char* message);
SMLA_API void smla_set_log(smla_log_callback callback, void* user);

/* Sized initialisers, called by the inline functions below; `struct_size` is the caller's sizeof. */
SMLA_API void smla_problem_init_sized(smla_problem* problem, size_t struct_size);
SMLA_API void smla_config_init_sized(smla_config* config, size_t struct_size);
SMLA_API smla_status smla_call_init_sized(smla_call* call, size_t struct_size, const smla_problem* problem,
                                          int64_t batch, int64_t queries, int64_t keys, int64_t topk);

/* (d_v + d_tail)^-1/2; 0 for a null problem. */
SMLA_API float smla_default_scale(const smla_problem* problem);

/* Whether this problem can be run on an arch ("sm_80" ... "sm_120", "sm_90a" for Hopper), with what config
 * forces (may be NULL). Needs neither GPU nor compiler. SMLA_NOT_SUPPORTED or SMLA_INVALID_ARGUMENT: the
 * reason is in smla_last_error() and, when `why` is not NULL, its first why_bytes - 1 bytes in `why`; on
 * success `why` holds what would be chosen, a sentence a line. */
SMLA_API smla_status smla_supported(const smla_problem* problem, const smla_config* config, const char* arch,
                                    char* why, size_t why_bytes);

/* Compiles a problem's kernels for an arch into the cache, or finds them there; needs no GPU. *built (may be
 * NULL) is 1 when they were compiled now and 0 when they were found. */
SMLA_API smla_status smla_prepare(const smla_problem* problem, const smla_config* config, const char* arch,
                                  int* built);

/* Makes a problem ready on a device (as CUDA_VISIBLE_DEVICES numbers them; -1: the calling thread's current
 * one): finds or compiles its kernels and loads them. config may be NULL. Takes a second when it compiles,
 * milliseconds from a warm cache and microseconds when this process has had the problem. `stream` (may be
 * NULL) is looked at alone: when it is being captured and something would have to be compiled or loaded, the
 * result is SMLA_CAPTURING and the capture is untouched. *plan is NULL after a failure. */
SMLA_API smla_status smla_plan_create(smla_plan** plan, const smla_problem* problem,
                                      const smla_config* config, int device, void* stream);

/* NULL is fine. Safe while work of the plan is queued or running. */
SMLA_API void smla_plan_destroy(smla_plan* plan);

/* One JSON object: problem, config, why, arch, device, kernels (with registers, spills, shared memory),
 * order, last_wave, key, compiler, source, with partial sums fallback. Belongs to the plan and lives as long as it. NULL after a failure. */
SMLA_API const char* smla_plan_describe(smla_plan* plan);

/* Bytes of workspace that a call of these lengths needs, with the lists of the pre-pass in it. Fewer tokens
 * may need more: lists that several SMs share take up to 20 MB. */
SMLA_API smla_status smla_workspace_size(const smla_plan* plan, const smla_lengths* lengths, size_t* bytes);

/* Bytes of smla_call.lists that a call of these lengths needs: 4 for every entry, rounded up a little, where
 * the plan sorts lists (smla_plan_describe: order) or joins those of several tokens, else 0. */
SMLA_API smla_status smla_lists_size(const smla_plan* plan, const smla_lengths* lengths, size_t* bytes);

/* Validates the call, then enqueues it on its stream: at most five kernels, with partial sums eight. Does not
 * allocate, wait or touch a file, and can be captured into a CUDA graph. After SMLA_INVALID_ARGUMENT and
 * SMLA_NOT_SUPPORTED nothing was launched. Any number of threads may run one plan at once, each with its own
 * workspace. */
SMLA_API smla_status smla_run(const smla_plan* plan, const smla_call* call);

/* Sets struct_size and the defaults. heads has to be set by the caller. */
static inline void smla_problem_init(smla_problem* problem) {
  smla_problem_init_sized(problem, sizeof *problem);
}
static inline void smla_config_init(smla_config* config) {
  smla_config_init_sized(config, sizeof *config);
}

/* Sets lengths and the strides of contiguous tensors of these lengths (topk_length: one a group); pointers
 * are NULL. The scale is not set: choose one (smla_default_scale). */
static inline smla_status smla_call_init(smla_call* call, const smla_problem* problem, int64_t batch,
                                         int64_t queries, int64_t keys, int64_t topk) {
  return smla_call_init_sized(call, sizeof *call, problem, batch, queries, keys, topk);
}

#ifdef __cplusplus
}
#endif

#endif
