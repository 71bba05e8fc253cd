"""The command-line tools as a program sees them: exit codes, stdout, stderr and JSON. Needs no GPU.

usage: cli_test.py BIN_DIRECTORY
"""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import closing_line

BIN = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"
TOOLS = ("smla-gen", "smla-prewarm", "smla-cache", "smla-bench")
OK, USAGE, NOT_SUPPORTED, NO_COMPILER, CACHE, NO_GPU, NO_DISASSEMBLER, OUTPUT = 0, 2, 3, 4, 6, 7, 8, 10
OWN_CACHE = tempfile.TemporaryDirectory()
SHAPE = ["--heads", "16", "--arch", "sm_90a"]


def environment(**changes):
    base = {name: value for name, value in os.environ.items()
            if not name.startswith("SMLA_") or name == "SMLA_NVRTC"}
    base["SMLA_CACHE_DIR"] = OWN_CACHE.name  # never the user's
    base.update(changes)
    return base


def run(tool, *arguments, stdout=subprocess.PIPE, **changes):
    return subprocess.run([os.path.join(BIN, tool), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, errors="replace", env=environment(**changes), timeout=300)


@functools.cache
def has_compiler():
    with tempfile.TemporaryDirectory() as empty:  # why-miss asks NVRTC for its version and compiles nothing
        return run("smla-cache", "why-miss", *SHAPE, "--dir", empty).returncode != NO_COMPILER


class Case(unittest.TestCase):
    def refused(self, code, sentence, tool, *arguments, **changes):
        """Ends with `code`, says `sentence` on stderr and nothing on stdout."""
        result = run(tool, *arguments, **changes)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(result.stdout, "")

    def answered(self, tool, *arguments, **changes):
        result = run(tool, *arguments, **changes)
        self.assertEqual(result.returncode, OK, result.stderr)
        return result.stdout


class EveryTool(Case):
    def test_help_shows_examples_and_the_exit_codes(self):
        for tool in TOOLS:
            text = self.answered(tool, "--help")
            self.assertIn("Examples:\n  " + tool if tool != "smla-prewarm" else "Examples:", text)
            self.assertIn("Exit codes:\n   0  done", text)
            self.assertIn("10  the answer could not be written", text)

    def test_version_names_the_library(self):
        for tool in TOOLS:
            self.assertRegex(self.answered(tool, "--version"), r"^smla \d+\.\d+\.\d+\n$")

    def test_an_unknown_flag_is_a_usage_error_on_stderr(self):
        for tool in TOOLS:
            command = ["path"] if tool == "smla-cache" else []
            self.refused(USAGE, "--nonsense", tool, *command, "--nonsense")

    def test_a_number_that_is_none_is_a_usage_error(self):
        self.refused(USAGE, "smla: Could not convert: --heads = sixty", "smla-gen", "--heads", "sixty")

    def test_a_negative_seed_is_refused_and_not_wrapped(self):
        for tool, *shape in (("smla-check", *SHAPE, "--on", "cpu"), ("smla-bench", *SHAPE[:2])):
            self.refused(USAGE, "--seed = -1 is negative; the least is 0", tool, *shape, "--seed", "-1")

    def test_an_empty_value_is_a_usage_error_and_not_a_default(self):
        with tempfile.TemporaryDirectory() as directory:
            entry = os.path.join(directory, "sparse-mla-bwd-h1.smla")
            with open(entry, "w") as file:
                file.write("x")
            self.refused(USAGE, '--dir = "" is empty', "smla-cache", "clear", "--dir", "", SMLA_CACHE_DIR=directory)
            self.assertTrue(os.path.exists(entry))
        self.refused(USAGE, '--heads = "" is empty', "smla-gen", "--heads", "")
        self.refused(USAGE, '--out = "" is empty', "smla-gen", *SHAPE, "--out", "")
        self.refused(USAGE, '--cache-dir = "" is empty', "smla-prewarm", *SHAPE, "--cache-dir", "")

    def test_a_full_stdout_is_an_error_of_its_own(self):
        for arguments in (["--help"], ["--heads", "16"], ["--list"]):
            with open("/dev/full", "w") as full:
                result = run("smla-gen", *arguments, stdout=full)
            self.assertEqual(result.returncode, OUTPUT)
            self.assertIn("could not be written", result.stderr)

    def test_a_closed_stdout_is_an_error_of_its_own(self):
        result = subprocess.run(["/bin/sh", "-c", f'"{BIN}/smla-gen" --heads 16 >&-'], capture_output=True, text=True)
        self.assertEqual(result.returncode, OUTPUT)
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as broken:
            self.assertEqual(run("smla-gen", "--heads", "16", stdout=broken).returncode, OUTPUT)


class Gen(Case):
    def test_the_source_is_the_same_in_every_run(self):
        first = self.answered("smla-gen", *SHAPE)
        self.assertIn('extern "C"', first)
        self.assertEqual(first, self.answered("smla-gen", *SHAPE))

    def test_list_names_the_schedules(self):
        schedules = json.loads(self.answered("smla-gen", "--list", "--json"))["schedules"]
        self.assertEqual([s["schedule"] for s in schedules], ["cp_async", "wgmma", "wgmma_pair"])
        text = self.answered("smla-gen", "--list")
        for schedule in schedules:
            self.assertIn(schedule["note"], text)

    def test_the_readme_holds_the_table_that_the_rules_write(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "README.md"), encoding="utf-8") as file:
            block = file.read().split("<!-- smla-gen --list --markdown: a test compares -->\n")[1].split("<!-- end -->")[0]
        self.assertEqual(block, self.answered("smla-gen", "--list", "--markdown"),
                         "paste the output of smla-gen --list --markdown into README.md")
        self.refused(USAGE, "--list", "smla-gen", "--markdown")

    def test_heads_are_required(self):
        self.refused(USAGE, "--heads is missing", "smla-gen")
        self.refused(USAGE, "heads = 0 must be at least 1", "smla-gen", "--heads", 0)

    def test_bad_values_are_refused_by_name_and_value(self):
        self.refused(USAGE, "heads = 9 is not divisible by kv_groups = 2", "smla-gen", "--heads", 9, "--kv-groups", 2)
        self.refused(USAGE, '"sm_99"', "smla-gen", "--heads", 64, "--arch", "sm_99")
        self.refused(USAGE, '--dtype = "fp8"', "smla-gen", "--heads", 64, "--dtype", "fp8")
        self.refused(USAGE, '--emit = "elf"', "smla-gen", "--heads", 64, "--emit", "elf")
        self.refused(USAGE, '"fast"', "smla-gen", "--heads", 64, "--schedule", "fast")

    def test_what_no_schedule_runs_has_an_exit_code_of_its_own(self):
        self.refused(NOT_SUPPORTED, "heads = 130", "smla-gen", "--heads", 130)
        self.refused(NOT_SUPPORTED, "wgmma", "smla-gen", "--heads", 64, "--schedule", "wgmma", "--arch", "sm_80")
        self.refused(NOT_SUPPORTED, "needs an even number of blocks of 64 heads", "smla-gen", "--heads", 64,
                     "--schedule", "wgmma_pair", "--arch", "sm_90a")

    def test_a_missing_compiler_is_named(self):
        for emit in ("cubin", "ptx", "report"):
            self.refused(NO_COMPILER, "/nowhere/libnvrtc.so", "smla-gen", *SHAPE, "--emit", emit,
                         SMLA_NVRTC="/nowhere/libnvrtc.so")

    def test_a_missing_disassembler_is_named_before_anything_is_compiled(self):
        self.refused(NO_DISASSEMBLER, "/nowhere/nvdisasm", "smla-gen", *SHAPE, "--emit", "sass",
                     SMLA_NVDISASM="/nowhere/nvdisasm", SMLA_NVRTC="/nowhere/libnvrtc.so")

    def test_json_and_a_second_output_on_stdout_are_refused(self):
        self.refused(USAGE, "--out", "smla-gen", *SHAPE, "--json", "--emit", "cubin")

    def test_out_writes_the_file_and_leaves_nothing_beside_it(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "kernel.cu")
            self.assertEqual(self.answered("smla-gen", *SHAPE, "--out", file), "")
            with open(file) as text:
                self.assertEqual(text.read(), self.answered("smla-gen", *SHAPE))
            self.assertEqual(os.listdir(directory), ["kernel.cu"])

    def test_out_that_cannot_be_written_is_an_error_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            missing = os.path.join(directory, "missing", "kernel.cu")
            self.refused(OUTPUT, missing, "smla-gen", *SHAPE, "--out", missing)
            self.refused(OUTPUT, directory, "smla-gen", *SHAPE, "--out", directory)
            self.assertEqual(os.listdir(directory), [])
        self.refused(OUTPUT, "/dev/full", "smla-gen", *SHAPE, "--out", "/dev/full")

    def test_out_that_is_a_link_writes_the_file_that_it_names(self):
        with tempfile.TemporaryDirectory() as directory:
            link, file = os.path.join(directory, "link.cu"), os.path.join(directory, "file.cu")
            os.symlink("file.cu", link)
            for _ in range(2):  # not there yet, and there
                self.answered("smla-gen", *SHAPE, "--out", link)
                self.assertTrue(os.path.islink(link))
                self.assertGreater(os.path.getsize(file), 0)
                self.assertEqual(sorted(os.listdir(directory)), ["file.cu", "link.cu"])

    def test_a_refusal_leaves_an_older_file_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "kernel.cu")
            with open(file, "w") as text:
                text.write("mine")
            self.refused(NOT_SUPPORTED, "130", "smla-gen", "--heads", 130, "--out", file)
            with open(file) as text:
                self.assertEqual(text.read(), "mine")

    def test_json_holds_choices_resources_and_key(self):
        if not has_compiler():
            self.skipTest("no NVRTC")
        report = json.loads(self.answered("smla-gen", *SHAPE, "--causal", "--json"))
        self.assertEqual(report["problem"]["heads"], 16)
        self.assertIs(report["problem"]["causal"], True)
        self.assertEqual(report["arch"], "sm_90a")
        self.assertEqual(set(report["config"]) >= {"schedule", "block_h", "block_size", "stages", "threads"}, True)
        self.assertTrue(report["why"])
        self.assertRegex(report["key"], "^[0-9a-f]{64}$")
        self.assertEqual([k["role"] for k in report["kernels"]][0], "preprocess")
        for kernel in report["kernels"]:
            self.assertGreater(kernel["registers"], 0)
            self.assertGreaterEqual(kernel["spill_bytes"], 0)
            self.assertGreater(kernel["code_bytes"], 0)
            self.assertTrue(kernel["grid"])

    def test_every_output_of_the_compiler_can_be_had(self):
        if not has_compiler():
            self.skipTest("no NVRTC")
        with tempfile.TemporaryDirectory() as directory:
            cubin = os.path.join(directory, "kernel.cubin")
            report = json.loads(self.answered("smla-gen", *SHAPE, "--emit", "cubin", "--out", cubin, "--json"))
            with open(cubin, "rb") as image:
                self.assertEqual(image.read(4), b"\x7fELF")
        self.assertLess(0, report["compile_cpu_seconds"])
        # A thread's processor time and the clock are read one after the other.
        self.assertLess(report["compile_cpu_seconds"], report["compile_seconds"] + 0.05)
        self.assertIn(".target sm_90a", self.answered("smla-gen", *SHAPE, "--emit", "ptx"))
        text = self.answered("smla-gen", *SHAPE, "--emit", "report")
        for word in ("registers", "spill bytes", "shared bytes", "code bytes", "machine code", "s of a core", report["key"]):
            self.assertIn(word, text)


class PrewarmAndCache(Case):
    @classmethod
    def setUpClass(cls):
        if not has_compiler():
            raise unittest.SkipTest("no NVRTC")
        cls.scratch = tempfile.TemporaryDirectory()
        cls.dir = os.path.join(cls.scratch.name, "cache")
        cls.first = run("smla-prewarm", *SHAPE, "--cache-dir", cls.dir, "--json")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def entries(self, directory=None):
        return sorted(name for name in os.listdir(directory or self.dir) if name.endswith(".smla"))

    def test_a_kernel_is_built_once_and_then_already_there(self):
        self.assertEqual(self.first.returncode, OK, self.first.stderr)
        report = json.loads(self.first.stdout)
        self.assertEqual((report["built"], report["already_there"], report["failed"]), (1, 0, 0))
        self.assertIn(report["kernels"][0]["file"], self.entries())
        self.assertGreater(report["kernels"][0]["registers"], 0)
        self.assertGreater(report["kernels"][0]["compile_cpu_seconds"], 0)
        self.assertIn("1/1 built", self.first.stderr)  # plain lines where stderr is no terminal
        again = json.loads(self.answered("smla-prewarm", *SHAPE, "--cache-dir", self.dir, "--json"))
        self.assertEqual((again["built"], again["already_there"], again["failed"]), (0, 1, 0))

    def test_a_failed_kernel_decides_the_exit_code_and_stops_no_other(self):
        manifest = os.path.join(self.scratch.name, "manifest.json")
        kernels = [{"problem": {"heads": 16}, "arch": "sm_90a"}, {"problem": {"heads": 130}, "arch": "sm_90a"}]
        with open(manifest, "w") as file:
            json.dump({"smla_manifest": 1, "kernels": kernels}, file)
        result = run("smla-prewarm", "--manifest", manifest, "--cache-dir", self.dir, "--json", "--jobs", 2)
        self.assertEqual(result.returncode, NOT_SUPPORTED)
        report = json.loads(result.stdout)
        self.assertEqual((report["already_there"], report["failed"]), (1, 1))
        self.assertIn("heads = 130", report["kernels"][1]["error"])

    def test_partial_sums_and_their_fallback_are_of_one_schedule_whatever_fp32_sums_would_choose(self):
        with tempfile.TemporaryDirectory() as directory:
            self.answered("smla-prewarm", "--heads", 128, "--arch", "sm_90a", "--accumulate", "partial", "--cache-dir",
                          directory)
            self.assertEqual([name.rsplit("-", 1)[0] for name in self.entries(directory)],
                             ["sparse-mla-bwd-h128-d512t64-bf16-partial-wgmma-bh64-bs64-st1-th384-sm_90a",
                              "sparse-mla-bwd-h128-d512t64-bf16-wgmma-bh64-bs64-st1-th384-sm_90a"])

    def test_nothing_to_compile_and_unreadable_manifests_are_usage_errors(self):
        self.refused(USAGE, "--heads 64", "smla-prewarm")
        self.refused(USAGE, "/nowhere.json", "smla-prewarm", "--manifest", "/nowhere.json")
        self.refused(USAGE, "--jobs = -1", "smla-prewarm", *SHAPE, "--jobs", "-1")

    def test_a_missing_compiler_fails_the_kernel(self):
        with tempfile.TemporaryDirectory() as empty:
            result = run("smla-prewarm", *SHAPE, "--cache-dir", empty, SMLA_NVRTC="/nowhere/libnvrtc.so")
            self.assertEqual(result.returncode, NO_COMPILER)
            self.assertIn("failed 1", result.stdout)
            self.assertEqual(self.entries(empty), [])

    def test_a_cache_that_cannot_be_made_is_an_error_before_anything_is_compiled(self):
        self.refused(CACHE, "/dev/null/cache", "smla-prewarm", *SHAPE, "--cache-dir", "/dev/null/cache")

    def test_killed_in_the_middle_it_leaves_nothing_half_written(self):
        with tempfile.TemporaryDirectory() as directory:
            process = subprocess.Popen([os.path.join(BIN, "smla-prewarm"), *SHAPE, "--cache-dir", directory],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
            time.sleep(0.4)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.answered("smla-cache", "verify", "--dir", directory)
            self.answered("smla-prewarm", *SHAPE, "--cache-dir", directory)
            self.answered("smla-cache", "verify", "--dir", directory)
            self.assertEqual(len(self.entries(directory)), 1)

    def test_path_names_the_directory_that_is_used(self):
        self.assertEqual(self.answered("smla-cache", "path", SMLA_CACHE_DIR=self.dir), self.dir + "\n")
        self.assertEqual(json.loads(self.answered("smla-cache", "path", "--dir", self.dir, "--json"))["user"], self.dir)
        self.refused(USAGE, "/nowhere", "smla-cache", "path", "--dir", "/nowhere")

    def test_list_names_every_entry(self):
        listed = json.loads(self.answered("smla-cache", "list", "--dir", self.dir, "--json"))["entries"]
        self.assertEqual([os.path.basename(entry["file"]) for entry in listed], self.entries())
        self.assertEqual(listed[0]["arch"], "sm_90a")
        self.assertIn(self.entries()[0], self.answered("smla-cache", "list", "--dir", self.dir))

    def test_verify_finds_a_damaged_entry(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(self.dir, self.entries()[0]), "rb") as file:
                content = file.read()
            copy = os.path.join(directory, self.entries()[0])
            with open(copy, "wb") as file:
                file.write(content)
            self.answered("smla-cache", "verify", "--dir", directory)
            with open(copy, "wb") as file:
                file.write(content[:-100])
            self.assertEqual(run("smla-cache", "verify", "--dir", directory).stdout.count(copy), 1)
            result = run("smla-cache", "verify", "--dir", directory, "--json")
            self.assertEqual(result.returncode, CACHE)
            self.assertEqual(json.loads(result.stdout)["damaged"], 1)
            self.refused(CACHE, "", "smla-cache", "extract", copy, "--out", os.path.join(directory, "k.cubin"))

    def test_extract_writes_the_cubin_and_the_key(self):
        out = os.path.join(self.scratch.name, "kernel.cubin")
        self.answered("smla-cache", "extract", self.entries()[0][:12], "--dir", self.dir, "--out", out)
        with open(out, "rb") as image:
            self.assertEqual(image.read(4), b"\x7fELF")
        key = self.answered("smla-cache", "extract", self.entries()[0], "--what", "key", "--dir", self.dir)
        self.assertIn("sm_90a", key)
        self.refused(CACHE, "no-such-entry", "smla-cache", "extract", "no-such-entry", "--dir", self.dir)

    def test_why_miss_tells_what_differs(self):
        hit = json.loads(self.answered("smla-cache", "why-miss", *SHAPE, "--dir", self.dir, "--json"))
        self.assertIs(hit["present"], True)
        miss = json.loads(self.answered("smla-cache", "why-miss", "--heads", 16, "--causal", "--dir", self.dir,
                                        "--json"))
        self.assertIs(miss["present"], False)
        self.assertTrue(miss["sentence"])

    def test_trim_and_clear_remove_entries(self):
        for command in (["trim", "--max-bytes", "0"], ["clear"]):
            with tempfile.TemporaryDirectory() as directory:
                with open(os.path.join(self.dir, self.entries()[0]), "rb") as file:
                    content = file.read()
                with open(os.path.join(directory, self.entries()[0]), "wb") as file:
                    file.write(content)
                kept = json.loads(self.answered("smla-cache", "trim", "--max-bytes", "1G", "--dir", directory, "--json"))
                self.assertEqual(kept["files"], 0)
                removed = json.loads(self.answered("smla-cache", *command, "--dir", directory, "--json"))
                self.assertEqual(removed["files"], 1)
                self.assertEqual(self.entries(directory), [])


class ClosedDirectories(Case):
    def test_a_directory_that_this_user_may_not_read_or_write_is_no_empty_one(self):
        user = 65534 if os.geteuid() == 0 else None  # root may do anything
        with tempfile.TemporaryDirectory() as directory:
            def refused(mode, word, *arguments):
                os.chmod(directory, mode)
                result = subprocess.run([os.path.join(BIN, "smla-cache"), *arguments, "--dir", directory], text=True,
                                        capture_output=True, env=environment(SMLA_CACHE_DIR="/nonexistent"), user=user)
                self.assertEqual((result.returncode, result.stdout), (CACHE, ""), result.stderr)
                self.assertIn(f"{directory} cannot be {word}: Permission denied", result.stderr)
            try:
                refused(0o000, "read", "list")
                refused(0o000, "read", "verify")
                refused(0o555, "cleared", "clear")
                refused(0o555, "trimmed", "trim", "--max-bytes", "0")
            except PermissionError:
                self.skipTest("the tools lie where another user does not reach them")
            finally:
                os.chmod(directory, 0o700)


class TrimSizes(Case):
    def test_sizes_that_64_bits_do_not_hold_are_refused(self):
        for size, named in (("-1", "-1"), ("99999999999999999999", "99999999999999999999"), ("nan", "nan"),
                            ("M", "M"), ("18446744073709551615K", "18446744073709551615")):
            self.refused(USAGE, named, "smla-cache", "trim", f"--max-bytes={size}")


class Bench(Case):
    def test_a_machine_without_a_driver_has_an_exit_code_of_its_own(self):
        self.refused(NO_GPU, "/nowhere/libcuda.so", "smla-bench", "--heads", 64, SMLA_LIBCUDA="/nowhere/libcuda.so")
        self.refused(NO_GPU, "/nowhere/libcuda.so", "smla-bench", "--limits", SMLA_LIBCUDA="/nowhere/libcuda.so")

    def test_bad_lengths_are_refused_before_the_driver_is_opened(self):
        self.refused(USAGE, "--keys = 0", "smla-bench", "--limits", "--keys", 0)
        self.refused(USAGE, "--tune measures every schedule", "smla-bench", "--heads", 64, "--tune", "t.json", "--order",
                     "sorted")
        self.refused(USAGE, "--heads is missing", "smla-bench", "--limits", "--tune", "t.json")
        self.refused(USAGE, "it is a directory", "smla-bench", "--heads", 64, "--tune", "/")
        self.refused(USAGE, "--topk = 0", "smla-bench", "--heads", 64, "--topk", 0)
        self.refused(USAGE, '"upwards"', "smla-bench", "--heads", 64, "--order", "upwards")
        self.refused(USAGE, "--heads is missing", "smla-bench")
        self.refused(USAGE, "--samples = 0", "smla-bench", "--heads", 64, "--check", "--samples", 0)
        self.refused(USAGE, "--seconds = nan", "smla-bench", "--heads", 64, "--seconds", "nan")


class Check(Case):
    def test_lengths_that_no_memory_holds_are_refused_by_value(self):
        self.refused(USAGE, "queries = 9223372036854775807", "smla-check", "--heads", 64, "--on", "cpu",
                     "--queries", 2**63 - 1)

    def test_a_temporary_directory_that_is_not_there_is_named(self):
        self.refused(USAGE, "TMPDIR", "smla-check", "--heads", 16, "--on", "cpu", TMPDIR="/nowhere")

    def test_random_cases_are_counted_and_what_says_a_call_is_refused_beside_them(self):
        answer = json.loads(self.answered("smla-check", "--on", "cpu", "--fuzz", 2, "--seed", 5, "--json"))
        self.assertEqual((answer["cases"], answer["problems"], answer["failures"]), (2, 1, []))
        self.refused(USAGE, "--heads 16", "smla-check", "--fuzz", 2, "--heads", 16)
        self.refused(USAGE, "--fuzz = 0", "smla-check", "--fuzz", 0)
        self.refused(USAGE, "--queries 9", "smla-check", "--fuzz", 2, "--queries", 9)

    def test_a_layout_that_only_the_reference_forward_can_have_is_refused_for_long_calls(self):
        self.refused(USAGE, "--layout = 3", "smla-check", "--on", "gpu", "--heads", 64, "--queries", 4096,
                     "--topk", 2048, "--layout", 3)


if __name__ == "__main__":
    closing_line.main()
