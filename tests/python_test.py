"""tools/python/smla.py without torch and without a GPU: its structs against the header's, its library search, and what it
makes of a call, with a stand-in for torch and for the driver.

usage: python_test.py SOURCE_DIRECTORY LIBSMLA FAKE_LIBCUDA C_COMPILER
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import types
import unittest

import closing_line

SOURCE, LIBRARY, FAKE_LIBCUDA, COMPILER = sys.argv[1:5]
sys.path.insert(0, os.path.join(SOURCE, "tools", "python"))
os.environ["SMLA_LIBRARY"] = LIBRARY
os.environ["SMLA_LIBCUDA"] = FAKE_LIBCUDA
scratch = tempfile.TemporaryDirectory()
os.environ["SMLA_CACHE_DIR"] = scratch.name


class FakeTensor:
    """Shape, type, device, strides and an address: all that smla.py asks a torch tensor for."""

    addresses = 1 << 40

    def __init__(self, shape, dtype, device=None, strides=None, address=None):
        self.shape, self.dtype, self.device = tuple(shape), dtype, device or torch.gpu
        if strides is None:
            strides, step = [], 1
            for length in reversed(self.shape):
                strides.insert(0, step)
                step *= length
        self.strides = tuple(strides)
        if address is None:
            FakeTensor.addresses += 1 << 24
            address = FakeTensor.addresses
        self.address = address

    def dim(self):
        return len(self.shape)

    def numel(self):
        count = 1
        for length in self.shape:
            count *= length
        return count

    def stride(self, dimension=None):
        return self.strides if dimension is None else self.strides[dimension]

    def data_ptr(self):
        return self.address

    def contiguous(self):
        return self

    def record_stream(self, stream):
        self.streams = getattr(self, "streams", []) + [stream.cuda_stream]

    def unsqueeze(self, at):
        return FakeTensor(self.shape[:at] + (1,) + self.shape[at:], self.dtype, self.device,
                          self.strides[:at] + (0,) + self.strides[at:], self.address)

    def squeeze(self, at):
        return FakeTensor(self.shape[:at] + self.shape[at + 1:], self.dtype, self.device,
                          self.strides[:at] + self.strides[at + 1:], self.address)

    def expand(self, *lengths):
        shape = tuple(old if new == -1 else new for old, new in zip(self.shape, lengths))
        strides = tuple(s if old == new else 0 for old, new, s in zip(self.shape, shape, self.strides))
        return FakeTensor(shape, self.dtype, self.device, strides, self.address)


torch = types.ModuleType("torch")
torch.bfloat16, torch.float16, torch.float32 = "bfloat16", "float16", "float32"
torch.int32, torch.int64, torch.uint8 = "int32", "int64", "uint8"
torch.gpu = types.SimpleNamespace(type="cuda", index=0)
torch.other_gpu = types.SimpleNamespace(type="cuda", index=1)
torch.cpu = types.SimpleNamespace(type="cpu", index=None)
torch.cuda = types.SimpleNamespace(device=lambda device: contextlib.nullcontext(),
                                   current_stream=lambda device: types.SimpleNamespace(cuda_stream=0))
torch.empty = lambda *shape, dtype, device: FakeTensor(
    shape[0] if isinstance(shape[0], tuple) else shape, dtype, device)
sys.modules["torch"] = torch

import smla  # noqa: E402


class FakeCuda(ctypes.Structure):
    """The beginning of fake_cuda in fake_libcuda.h."""

    _fields_ = [(field, ctypes.c_int) for field in (
        "compute_major", "compute_minor", "multiprocessors", "ctas_per_multiprocessor", "capturing", "failing_launch",
        "failing_load")] + [("argument_bytes", ctypes.c_size_t), ("launches", ctypes.c_int)]


def inputs(batch=1, queries=4, keys=8, heads=16, groups=1, topk=8):
    return {"q": FakeTensor((batch, queries, heads, 576), torch.bfloat16),
            "kv": FakeTensor((batch, keys, groups, 576), torch.bfloat16),
            "o": FakeTensor((batch, queries, heads, 512), torch.bfloat16),
            "do": FakeTensor((batch, queries, heads, 512), torch.bfloat16),
            "indices": FakeTensor((batch, queries, groups, topk), torch.int32),
            "lse": FakeTensor((batch, queries, heads), torch.float32)}


class AbiOfStructs(unittest.TestCase):
    def test_each_struct_is_laid_out_as_the_header_says(self):
        lines, expected = [], []
        for name, struct in (("problem", smla.Problem), ("config", smla.Config), ("lengths", smla.Lengths),
                             ("tensor", smla.Tensor), ("call", smla.Call)):
            lines.append(f'printf("%zu\\n", sizeof(smla_{name}));')
            expected.append(ctypes.sizeof(struct))
            for field, _ in struct._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof(smla_{name}, {field}), '
                             f'sizeof(((smla_{name}*)0)->{field}));')
                description = getattr(struct, field)
                expected += [description.offset, description.size]
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "layout")
            with open(program + ".c", "w") as text:
                text.write("#include <stdio.h>\n#include <smla/smla.h>\nint main(void) {\n" + "\n".join(lines) +
                           "\nreturn 0;\n}\n")
            subprocess.run([COMPILER, "-std=c99", "-I", os.path.join(SOURCE, "include"), program + ".c", "-o", program],
                           check=True)
            printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual([int(number) for number in printed.split()], expected)


class Readme(unittest.TestCase):
    def test_the_example_of_the_c_api_compiles(self):
        with open(os.path.join(SOURCE, "README.md")) as readme:
            example = readme.read().split("```c\n")[1].split("```")[0]
        subprocess.run([COMPILER, "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-I",
                        os.path.join(SOURCE, "include"), "-"],
                       input="#include <stddef.h>\nvoid* allocate(size_t bytes);\n" + example, text=True, check=True)


class Loading(unittest.TestCase):
    def run_python(self, program, **changes):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "tools", "python"), **changes})

    def test_C55_importing_opens_no_library(self):
        result = self.run_python("import smla; print('libsmla' in open('/proc/self/maps').read())")
        self.assertEqual(result.stdout, "False\n", result.stderr)

    def test_C55_loading_opens_no_driver(self):
        result = self.run_python("import smla; print(smla.version()); maps = open('/proc/self/maps').read()\n"
                                 "print('libsmla' in maps, 'libcuda' in maps)")
        self.assertRegex(result.stdout, r"^\d+\.\d+\.\d+\nTrue False\n$", result.stderr)

    def test_a_missing_library_is_named_with_the_way_to_it(self):
        result = self.run_python("import smla; smla.version()", SMLA_LIBRARY="/nowhere/libsmla.so")
        self.assertIn("/nowhere/libsmla.so", result.stderr)
        self.assertIn("SMLA_LIBRARY", result.stderr)


class Refusals(unittest.TestCase):
    def refused(self, kind, words, **changes):
        arguments = inputs()
        arguments.update(changes)
        with self.assertRaises(kind) as caught:
            smla.sparse_mla_bwd(**arguments)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_C35_64_bit_indices_are_refused_with_the_conversion(self):
        self.refused(TypeError, ("indices", "int64", "indices.int()"), indices=FakeTensor((1, 4, 1, 8), torch.int64))

    def test_a_tensor_of_another_shape_type_or_device_is_named(self):
        self.refused(ValueError, ("lse", "(1, 4, 15)", "(1, 4, 16)"), lse=FakeTensor((1, 4, 15), torch.float32))
        self.refused(TypeError, ("lse", "bfloat16"), lse=FakeTensor((1, 4, 16), torch.bfloat16))
        self.refused(TypeError, ("do", "float16", "bfloat16"), do=FakeTensor((1, 4, 16, 512), torch.float16))
        self.refused(TypeError, ("q is float32",), q=FakeTensor((1, 4, 16, 576), torch.float32))
        self.refused(ValueError, ("kv",), kv=FakeTensor((1, 8, 1, 576), torch.bfloat16, torch.other_gpu))
        self.refused(ValueError, ("q is on",), q=FakeTensor((1, 4, 16, 576), torch.bfloat16, torch.cpu))
        self.refused(ValueError, ("q, kv, o and indices",), kv=FakeTensor((8, 576), torch.bfloat16))
        self.refused(ValueError, ("delta",), delta=FakeTensor((1, 4), torch.float32))
        self.refused(ValueError, ("attn_sink", "(16,)"), attn_sink=FakeTensor((4,), torch.float32))

    def test_unknown_words_are_refused_with_those_that_work(self):
        self.refused(ValueError, ("lse_base = 10", "2, 'e'"), lse_base=10)
        self.refused(ValueError, ("schedule", "'wgmma'"), schedule="fast")
        self.refused(ValueError, ("accumulate", "'partial'"), accumulate="half")
        self.refused(TypeError, ("d_kv_dtype",), d_kv_dtype=torch.float16)

    def test_integers_that_would_be_cut_to_fewer_bits_are_refused(self):
        self.refused(ValueError, ("block_h = 4294967312",), block_h=2**32 + 16)
        self.refused(ValueError, ("threads = 128.0",), threads=128.0)
        self.refused(ValueError, ("stages = -2147483648",), stages=-2**31)
        self.refused(ValueError, ("query_offset = 18446744073709551617",), query_offset=2**64 + 1)


LAUNCHES = 4  # 16 heads share a CTA with neighbouring tokens, so that their lists are merged first


class Calls(unittest.TestCase):
    def setUp(self):
        driver = ctypes.CDLL(FAKE_LIBCUDA)
        driver.fake_cuda_state.restype = ctypes.POINTER(FakeCuda)
        self.cuda = driver.fake_cuda_state().contents  # argument_bytes = 0: parameters are not recorded

    def run_call(self, **changes):
        arguments = inputs()
        arguments.update(changes)
        before = self.cuda.launches
        try:
            result = smla.sparse_mla_bwd(**arguments)
        except smla.SmlaError as error:
            if error.status == 4:
                self.skipTest("no NVRTC")
            raise
        return result, self.cuda.launches - before

    def test_a_call_launches_its_kernels_and_returns_the_gradients(self):
        (d_q, d_kv), launches = self.run_call()
        self.assertEqual(launches, LAUNCHES)
        self.assertEqual((d_q.shape, d_q.dtype), ((1, 4, 16, 576), torch.bfloat16))
        self.assertEqual((d_kv.shape, d_kv.dtype), ((1, 8, 1, 576), torch.bfloat16))

    def test_a_plan_serves_every_length(self):
        self.run_call()
        plans = len(smla._plans)
        self.run_call(**inputs(queries=9, keys=30, topk=17))
        self.assertEqual(len(smla._plans), plans)

    def test_the_spelling_of_the_seed_is_the_same_flag(self):
        self.run_call(is_causal=False)
        plans = len(smla._plans)
        self.run_call(is_casual=False)
        self.assertEqual(len(smla._plans), plans)

    def test_a_sink_adds_its_gradient(self):
        (_, _, d_sink), _ = self.run_call(attn_sink=FakeTensor((16,), torch.float32))
        self.assertEqual((d_sink.shape, d_sink.dtype), ((16,), torch.float32))

    def test_options_reach_the_problem(self):
        (_, d_kv), _ = self.run_call(d_kv_dtype=torch.float32, topk_length=FakeTensor((1, 4), torch.int32),
                                     delta=FakeTensor((1, 4, 16), torch.float32), lse_base="e")
        self.assertEqual(d_kv.dtype, torch.float32)
        text = smla.plan_description()[-1]
        for field in ('"has_topk_length": true', '"has_delta": true', '"lse_base": "e"', '"d_kv_type": "fp32"'):
            self.assertIn(field, text)

    def test_tensors_without_a_batch_dimension_give_such_gradients(self):
        packed = {name: tensor.squeeze(0) for name, tensor in inputs().items()}
        (d_q, d_kv), launches = self.run_call(**packed)
        self.assertEqual(launches, LAUNCHES)
        self.assertEqual((d_q.shape, d_kv.shape), ((4, 16, 576), (8, 1, 576)))

    def test_slices_run_and_what_the_library_cannot_read_is_refused_by_name(self):
        wide = FakeTensor((1, 8, 1, 576), torch.bfloat16, strides=(8 * 640, 640, 640, 1))
        self.assertEqual(self.run_call(kv=wide)[1], LAUNCHES)
        expanded = FakeTensor((1, 4, 16, 512), torch.bfloat16, strides=(0, 0, 0, 0))
        with self.assertRaisesRegex(ValueError, "do has strides"):
            self.run_call(do=expanded)
        odd = FakeTensor((1, 4, 16, 512), torch.bfloat16, strides=(4 * 16 * 513, 16 * 513, 513, 1))
        with self.assertRaisesRegex(smla.SmlaError, "d_o.*513"):
            self.run_call(do=odd)

    def test_kept_lists_save_later_calls_over_the_same_indices_a_launch(self):
        lists, arguments = smla.Lists(), inputs(queries=30)
        self.assertEqual(self.run_call(**arguments, lists=lists)[1], LAUNCHES)
        self.assertGreaterEqual(lists._memory.numel(), 4 * 30 * 8)
        self.assertEqual(self.run_call(**arguments, lists=lists)[1], LAUNCHES - 1)
        other_values = dict(inputs(queries=30), indices=arguments["indices"])
        self.assertEqual(self.run_call(**other_values, sm_scale=0.5, lists=lists)[1], LAUNCHES - 1)
        self.assertEqual(lists._memory.streams, [0, 0, 0])
        self.assertEqual(self.run_call(**arguments)[1], LAUNCHES)
        packed = {name: tensor.squeeze(0) for name, tensor in arguments.items()}
        self.assertEqual(self.run_call(**packed, lists=lists)[1], LAUNCHES - 1)

    def test_kept_lists_of_other_indices_shapes_or_options_are_refused(self):
        arguments = dict(inputs(), topk_length=FakeTensor((1, 4), torch.int32))
        lists = smla.Lists()
        self.run_call(**arguments, lists=lists)
        other_indices = FakeTensor((1, 4, 1, 8), torch.int32)
        for changes in ({"indices": other_indices}, {"topk_length": FakeTensor((1, 4), torch.int32)},
                        {"query_offset": 3}, {"is_causal": False}, {"order": "sorted"},
                        {"kv": FakeTensor((1, 9, 1, 576), torch.bfloat16)}):
            with self.assertRaisesRegex(ValueError, "new smla.Lists", msg=changes):
                self.run_call(**{**arguments, **changes}, lists=lists)
        self.assertEqual(self.run_call(**arguments, lists=lists)[1], LAUNCHES - 1)
        arguments["indices"]._version = 1  # as torch counts changes in place
        with self.assertRaisesRegex(ValueError, "changed since"):
            self.run_call(**arguments, lists=lists)
        with self.assertRaisesRegex(TypeError, "lists is a FakeTensor; a smla.Lists is wanted"):
            self.run_call(**arguments, lists=other_indices)

    def test_lists_of_a_call_that_failed_are_made_by_the_next(self):
        lists = smla.Lists()
        with self.assertRaisesRegex(smla.SmlaError, "scale = nan"):
            self.run_call(sm_scale=float("nan"), lists=lists)
        self.assertEqual(self.run_call(lists=lists)[1], LAUNCHES)

    def test_where_nothing_is_sorted_kept_lists_are_empty_and_change_nothing(self):
        lists, arguments = smla.Lists(), inputs(heads=64)
        for _ in range(2):
            self.assertEqual(self.run_call(**arguments, lists=lists)[1], LAUNCHES - 1)
        self.assertEqual(lists._memory.numel(), 0)

    def test_what_no_schedule_runs_raises_the_sentence_of_the_library(self):
        with self.assertRaises(smla.SmlaError) as caught:
            self.run_call(**inputs(heads=130))
        self.assertEqual(caught.exception.status, 2)
        self.assertIn("heads = 130", str(caught.exception))


if __name__ == "__main__":
    closing_line.main()
