"""The backward of sparse MLA on torch tensors, through libsmla.so. ctypes only, nothing to build.

    import smla
    d_q, d_kv = smla.sparse_mla_bwd(q, kv, o, do, indices, lse, sm_scale=576**-0.5, lse_base="e")

libsmla.so is looked for at the first call: SMLA_LIBRARY (a file), beside this file, in the build folders of the source
tree that this file lies in, then by the dynamic loader. Importing this module opens nothing and touches no GPU.
"""

import ctypes
import glob
import os
import threading

__all__ = ["sparse_mla_bwd", "Lists", "plan_description", "version", "SmlaError"]

_INT32, _INT64, _SIZE, _POINTER, _FLOAT = (
    ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_float)


class SmlaError(RuntimeError):
    """What libsmla refused or could not do; `status` is the smla_status of include/smla/smla.h."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


# The structs of include/smla/smla.h; tests/python_test.py compares them with the compiler's layout.


class Problem(ctypes.Structure):
    _fields_ = [("struct_size", _SIZE)] + [(field, _INT32) for field in (
        "heads", "kv_groups", "d_v", "d_tail", "dtype", "causal", "has_sink", "has_topk_length", "has_delta",
        "lse_base", "lse_includes_sink", "d_kv_type", "accumulate", "deterministic")]


class Config(ctypes.Structure):
    _fields_ = [("struct_size", _SIZE)] + [(field, _INT32) for field in (
        "schedule", "block_h", "block_size", "stages", "threads", "reserved")]


class Lengths(ctypes.Structure):
    _fields_ = [("batch", _INT64), ("queries", _INT64), ("keys", _INT64), ("topk", _INT64), ("order", _INT32),
                ("reserved", _INT32 * 3)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", _POINTER), ("strides", _INT64 * 3)]


class Call(ctypes.Structure):
    _fields_ = [("struct_size", _SIZE), ("lengths", Lengths), ("q", Tensor), ("kv", Tensor), ("o", Tensor),
                ("d_o", Tensor), ("indices", Tensor), ("topk_length", Tensor), ("lse", Tensor), ("delta", Tensor),
                ("attn_sink", _POINTER), ("d_q", Tensor), ("d_kv", Tensor), ("d_sink", _POINTER), ("scale", _FLOAT),
                ("reserved", _INT32), ("query_offset", _INT64), ("workspace", _POINTER), ("workspace_bytes", _SIZE),
                ("stream", _POINTER), ("lists", _POINTER), ("lists_bytes", _SIZE), ("lists_are_ready", _INT32),
                ("reserved2", _INT32)]


_SCHEDULES = {"auto": 0, "cp_async": 1, "wgmma": 2, "wgmma_pair": 3}
_ORDERS = {"auto": 0, "caller": 1, "sorted": 2, "throttled": 3}

_lock = threading.Lock()
_library = None
_plans = {}  # (problem's fields, config's fields, device) -> smla_plan*, kept while the process lives


def _candidates():
    named = os.environ.get("SMLA_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    found = [os.path.join(here, "libsmla.so"), os.path.join(root, "build", "release", "libsmla.so")]
    found += sorted(glob.glob(os.path.join(root, "build*", "libsmla.so")))
    found += sorted(glob.glob(os.path.join(root, "build", "*", "libsmla.so")))
    return [path for path in found if os.path.exists(path)] + ["libsmla.so"]


def _load():
    global _library
    with _lock:
        if _library is None:
            path = _candidates()[0]
            try:
                library = ctypes.CDLL(path)
            except OSError as error:
                raise SmlaError(9, f"smla: {path} could not be loaded ({error}); build it (sh tools/quickstart.sh) or "
                                   "name it in SMLA_LIBRARY") from error
            pointer = ctypes.POINTER
            for function, arguments in {
                "smla_version": [], "smla_last_error": [],
                "smla_problem_init_sized": [pointer(Problem), _SIZE],
                "smla_config_init_sized": [pointer(Config), _SIZE],
                "smla_call_init_sized": [pointer(Call), _SIZE, pointer(Problem)] + [_INT64] * 4,
                "smla_plan_create": [pointer(_POINTER), pointer(Problem), pointer(Config), ctypes.c_int, _POINTER],
                "smla_plan_describe": [_POINTER],
                "smla_workspace_size": [_POINTER, pointer(Lengths), pointer(_SIZE)],
                "smla_lists_size": [_POINTER, pointer(Lengths), pointer(_SIZE)],
                "smla_run": [_POINTER, pointer(Call)],
            }.items():
                getattr(library, function).argtypes = arguments
            for function in ("smla_version", "smla_last_error", "smla_plan_describe"):
                getattr(library, function).restype = ctypes.c_char_p
            _library = library
    return _library


def _check(library, status):
    if status != 0:
        raise SmlaError(status, library.smla_last_error().decode(errors="replace"))


def version():
    """Version of the library that is used, as "0.1.0"."""
    return _load().smla_version().decode()


def _values(struct):
    return tuple(getattr(struct, field) for field, _ in struct._fields_)


def _plan(library, problem, config, device, stream):
    key = (_values(problem), _values(config), device)
    plan = _plans.get(key)
    if plan is None:
        plan = _POINTER()
        _check(library, library.smla_plan_create(plan, problem, config, device, stream))
        plan = _plans.setdefault(key, plan)  # another thread's is as good; a plan is small and immutable
    return plan


def _size(library, function, plan, lengths):
    size = _SIZE()
    _check(library, getattr(library, function)(plan, lengths, size))
    return size.value


class Lists:
    """The lists of one set of indices in the order in which the kernels read them, kept for more than one call:

        lists = smla.Lists()
        for layer in layers:  # that attend to the same rows
            smla.sparse_mla_bwd(..., indices, ..., lists=lists)

    The first call makes them, on its stream; later ones do without that pass and have to come behind it (same stream,
    or an event). They may have other values, but need the same tensors indices and topk_length, with the same contents,
    and the same shapes and options; for other ones make a new Lists. All of this is checked, of the contents what torch
    changes in place outside inference mode. A call that is captured into a graph counts as made: replay it before a
    call outside of the graph, and keep the Lists as long as the graph. Takes 4 bytes of GPU memory an entry where the
    library sorts lists (up to 32 heads on sm_90a, long contexts, order="sorted"), elsewhere none, and holds on to
    indices and topk_length.
    """

    def __init__(self):
        self._memory = None  # uint8 tensor
        self._made_for = None  # what the calls have to have in common; None until one has made them
        self._tensors = None  # so that their addresses stay theirs


def _require_tensor(name, tensor, shape, dtype, device):
    """Refuses, with a sentence that names the tensor, what the library could not read."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"smla: {name} has shape {tuple(tensor.shape)}; {tuple(shape)} is wanted")
    if tensor.dtype != dtype:
        hint = f"; convert it with {name}.int()" if name in ("indices", "topk_length") else ""
        raise TypeError(f"smla: {name} is {tensor.dtype}; {dtype} is wanted{hint}")
    if tensor.device != device:
        raise ValueError(f"smla: {name} is on {tensor.device} and q is on {device}")


def _view(name, tensor, columns=True):
    """The tensor for the library: its address and the strides of batch, token and head."""
    if columns and tensor.numel() > 0 and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(f"smla: {name} has strides {tuple(tensor.stride())}; the innermost has to be 1 "
                         f"({name}.contiguous() makes it so)")
    return Tensor(tensor.data_ptr(), (_INT64 * 3)(*tensor.stride()[:3]))


def _changes(tensor):
    """How often torch has changed it in place; None for those that do not count (inference mode)."""
    try:
        return tensor._version
    except (AttributeError, RuntimeError):
        return None


def _place(tensor):
    """Address and strides; those of dimensions of length 1 mean nothing."""
    return tensor.data_ptr(), tuple(step for length, step in zip(tensor.shape, tensor.stride()) if length > 1)


def _word(name, value, words):
    if value not in words:
        raise ValueError(f"smla: {name} = {value!r} is not known; known are {', '.join(map(repr, words))}")
    return words[value]


def _integer(name, value):
    """The integer that `value` is; ctypes would cut it to 32 or 64 bits."""
    if isinstance(value, float) or not -2**31 < int(value) < 2**31:
        raise ValueError(f"smla: {name} = {value!r} is no integer within +-{2**31 - 1}")
    return int(value)


def sparse_mla_bwd(q, kv, o, do, indices, lse, sm_scale=None, is_causal=True, delta=None, lse_base=2, *,
                   attn_sink=None, lse_includes_sink=False, topk_length=None, query_offset=0, d_kv_dtype=None,
                   schedule="auto", block_h=0, block_size=0, stages=0, threads=0, order="auto", is_casual=None,
                   accumulate="fp32", deterministic=False, lists=None):
    """Gradients of sparse MLA, enqueued on torch's current stream of q's device. Returns (d_q, d_kv), and with attn_sink
    (d_q, d_kv, d_sink).

    q            [B, S, H, D], bfloat16 or float16; D = 576 (512 + 64) or 512
    kv           [B, S_kv, G, D], as q
    o, do        [B, S, H, 512], as q; o is what the forward saved
    indices      [B, S, G, topk], int32: rows of kv; others (-1, S_kv) are ignored
    lse          [B, S, H], float32, in base lse_base: 2 (TileLang) or "e" (FlashMLA)
    sm_scale     softmax scale; D**-0.5 when None
    is_causal    an entry counts only when index <= s + query_offset (the seed's spelling is_casual works too)
    delta        [B, S, H], float32: sum of o * do where the caller has it
    attn_sink    [H], float32: one more logit a head; lse_includes_sink says whether lse has it
    topk_length  [B, S] or [B, S, G], int32: entries of a list that count
    d_kv_dtype   torch.float32 for an unrounded d_kv; q's dtype when None
    accumulate   "fp32", or "partial": d_kv in fp16 over groups of tokens, faster, 2e-3 apart between runs (bfloat16 on
                 sm_90a, up to 16384 kv rows)
    deterministic  d_q and d_kv repeat bit for bit; about half the speed
    lists        a Lists, where several calls have the same indices

    All of q, kv, o, do, indices, lse without their batch dimension work as well, and so do the results then. Strides
    are passed on: slices and expanded tensors work unless refused by name. schedule, block_h, block_size, stages,
    threads and order force what the library would choose: schedule="wgmma" for instance where 65 to 128 heads in
    bfloat16 run as pairs of CTAs ("wgmma_pair"), one half of whose sums over heads is rounded to bfloat16.

    The first call of a new problem compiles for a second; later ones only launch. Not differentiable a second time.
    """
    import torch

    if is_casual is not None:
        is_causal = is_casual
    packed = q.dim() == 3
    if packed:
        unsqueezed = lambda tensor: tensor if tensor is None else tensor.unsqueeze(0)
        q, kv, o, do, indices, lse, delta, topk_length = map(
            unsqueezed, (q, kv, o, do, indices, lse, delta, topk_length))
    if q.dim() != 4 or kv.dim() != 4 or o.dim() != 4 or indices.dim() != 4:
        raise ValueError(f"smla: q, kv, o and indices have shapes {tuple(q.shape)}, {tuple(kv.shape)}, "
                         f"{tuple(o.shape)} and {tuple(indices.shape)}; four dimensions each are wanted")
    if q.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"smla: q is {q.dtype}; torch.bfloat16 or torch.float16 is wanted")
    if q.device.type != "cuda":
        raise ValueError(f"smla: q is on {q.device}; a CUDA device is wanted")
    batch, queries, heads, d_qk = q.shape
    keys, groups = kv.shape[1], kv.shape[2]
    d_v, topk = o.shape[3], indices.shape[3]
    device = q.device
    fp32, int32 = torch.float32, torch.int32
    _require_tensor("kv", kv, (batch, keys, groups, d_qk), q.dtype, device)
    _require_tensor("o", o, (batch, queries, heads, d_v), q.dtype, device)
    _require_tensor("do", do, (batch, queries, heads, d_v), q.dtype, device)
    _require_tensor("indices", indices, (batch, queries, groups, topk), int32, device)
    _require_tensor("lse", lse, (batch, queries, heads), fp32, device)
    if delta is not None:
        _require_tensor("delta", delta, (batch, queries, heads), fp32, device)
    if attn_sink is not None:
        _require_tensor("attn_sink", attn_sink, (heads,), fp32, device)
        attn_sink = attn_sink.contiguous()
    if topk_length is not None:
        if topk_length.dim() == 2:
            topk_length = topk_length.unsqueeze(2).expand(-1, -1, groups)
        _require_tensor("topk_length", topk_length, (batch, queries, groups), int32, device)
    if d_kv_dtype not in (None, q.dtype, fp32):
        raise TypeError(f"smla: d_kv_dtype is {d_kv_dtype}; {q.dtype} or torch.float32 is wanted")
    if lists is not None and not isinstance(lists, Lists):
        raise TypeError(f"smla: lists is a {type(lists).__name__}; a smla.Lists is wanted")

    library = _load()
    problem, config, call = Problem(), Config(), Call()
    library.smla_problem_init_sized(problem, ctypes.sizeof(problem))
    problem.heads, problem.kv_groups, problem.d_v, problem.d_tail = heads, groups, d_v, d_qk - d_v
    problem.dtype = 0 if q.dtype == torch.bfloat16 else 1
    problem.causal = bool(is_causal)
    problem.has_sink, problem.lse_includes_sink = attn_sink is not None, bool(lse_includes_sink)
    problem.has_topk_length, problem.has_delta = topk_length is not None, delta is not None
    problem.lse_base = _word("lse_base", lse_base, {2: 0, "e": 1})
    problem.d_kv_type = int(d_kv_dtype == fp32)
    problem.accumulate = _word("accumulate", accumulate, {"fp32": 0, "partial": 1})
    problem.deterministic = bool(deterministic)
    library.smla_config_init_sized(config, ctypes.sizeof(config))
    config.schedule = _word("schedule", schedule, _SCHEDULES)
    config.block_h, config.block_size = _integer("block_h", block_h), _integer("block_size", block_size)
    config.stages, config.threads = _integer("stages", stages), _integer("threads", threads)
    query_offset = _integer("query_offset", query_offset)

    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        plan = _plan(library, problem, config, device.index, stream)
        d_q = torch.empty(q.shape, dtype=q.dtype, device=device)
        d_kv = torch.empty(kv.shape, dtype=d_kv_dtype or q.dtype, device=device)
        d_sink = None if attn_sink is None else torch.empty(heads, dtype=fp32, device=device)

        _check(library, library.smla_call_init_sized(call, ctypes.sizeof(call), problem, batch, queries, keys, topk))
        call.lengths.order = _word("order", order, _ORDERS)
        call.q, call.kv, call.o, call.d_o = _view("q", q), _view("kv", kv), _view("o", o), _view("do", do)
        call.indices, call.lse = _view("indices", indices), _view("lse", lse, columns=False)
        if delta is not None:
            call.delta = _view("delta", delta, columns=False)
        if topk_length is not None:
            call.topk_length = _view("topk_length", topk_length, columns=False)
        call.d_q, call.d_kv = _view("d_q", d_q), _view("d_kv", d_kv)
        if attn_sink is not None:
            call.attn_sink, call.d_sink = attn_sink.data_ptr(), d_sink.data_ptr()
        call.scale = d_qk**-0.5 if sm_scale is None else float(sm_scale)
        call.query_offset = query_offset
        workspace_bytes = _size(library, "smla_workspace_size", plan, call.lengths)
        if lists is not None:
            made_for = (plan.value, batch, queries, keys, topk, order, query_offset) + tuple(
                (_place(tensor), _changes(tensor)) for tensor in (indices, topk_length) if tensor is not None)
            if lists._made_for not in (None, made_for):
                raise ValueError("smla: lists were made for other indices (or those have been changed since), shapes or options; those of this call need "
                                 "a new smla.Lists()")
            call.lists_are_ready = lists._made_for is not None
            call.lists_bytes = _size(library, "smla_lists_size", plan, call.lengths)
            if not call.lists_are_ready:
                lists._memory = torch.empty(call.lists_bytes, dtype=torch.uint8, device=device)
            lists._memory.record_stream(torch.cuda.current_stream(device))
            call.lists = lists._memory.data_ptr()
            workspace_bytes -= call.lists_bytes
        # Of torch's caching allocator: given back when this function returns, and reused only behind this stream's work.
        workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=device)
        call.workspace, call.workspace_bytes, call.stream = workspace.data_ptr(), workspace_bytes, stream
        _check(library, library.smla_run(plan, call))
        if lists is not None:
            lists._made_for, lists._tensors = made_for, (indices, topk_length)

    if packed:
        d_q, d_kv = d_q.squeeze(0), d_kv.squeeze(0)
    return (d_q, d_kv) if attn_sink is None else (d_q, d_kv, d_sink)


def plan_description():
    """What was chosen and compiled for each problem that this process has run, as JSON texts."""
    return [_library.smla_plan_describe(plan).decode() for plan in list(_plans.values())]
