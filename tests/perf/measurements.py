"""What was measured, from the JSON files of this folder. Three kinds of files are known:

peers   what bench_peers.py writes with --json, inside an object with gpu, commit and protocol: "rows" of impl, H, D, topk,
        S, causal, ms, and lists where they are not random. Their times are medians of a short run: `run`.
bench   what smla-bench --json prints, one object or several, in a list or one after another: `cool` and `steady`. Objects
        with "limits" (smla-bench --limits --json) say what the GPU can do as well.
typed   "rows" of heads, d_qk, topk, queries, lists, accumulate, deterministic with cool_ms and steady_ms, or with run_ms and
        impl: figures that were read off a terminal.

A later file, by the date in its name, replaces what an earlier one says of the same thing; of one day, what a tool wrote
replaces what was typed, and then names decide.
"""

import collections
import json
import os
import re
import statistics

# What is measured: implementation ("smla", "cudnn"), sums ("fp32", "partial", "deterministic"), shape, lists, and how
# ("run", "cool", "steady").
Key = collections.namedtuple("Key", "impl sums heads d_qk topk queries lists how")

SMS = 132           # of an H200
TILE_ROWS = 64      # kv rows a step
D_V = 512

# A tile of 64 rows of 576 columns gathered and reduced by one SM of an H200, with fp32 sums that L2 holds: what
# tools/floor.cpp says. A file with "limits" replaces it.
KNOWN_TILE_US = {"fp32": 5.455}
LIMIT_NAMES = {"gather_reduce_fp32": "fp32", "gather_reduce_fp16": "partial", "gather_reduce_u64": "deterministic"}


class Limits:
    def __init__(self):
        self.tile_us = {how: dict(KNOWN_TILE_US) for how in ("cool", "steady")}
        self.flops = {}  # of all SMs
        self.source = "5.455 us a tile, H200"

    def read(self, limits, source):
        """The fastest of each: a table that L2 holds is what a sweep makes of a larger one."""
        self.source = source
        for how in ("cool", "steady"):
            times = {}
            for limit in limits:
                sums = LIMIT_NAMES.get(limit["name"])
                if sums:
                    us = limit[f"{how}_tile_us"]
                    times[sums] = min(us, times.get(sums, us))
            self.tile_us[how].update(times)
            rates = [limit[f"{how}_flops"] for limit in limits if f"{how}_flops" in limit]
            if rates:
                self.flops[how] = max(rates)

    def tflops(self, key, how):
        """The most that a call can reach, or None. Only for random lists, whose unions are known without the lists."""
        pair = key.sums == "fp32" and -(-key.heads // 64) % 2 == 0  # a CTA reduces half the columns, as many bytes as in fp16
        us = self.tile_us[how].get("partial" if pair else key.sums)
        if us is None or key.lists != "random" or (key.sums != "fp32" and how not in self.flops):
            return None
        block_h = 64 if key.heads > 32 else max(8, 1 << (key.heads - 1).bit_length())
        tokens = 64 // block_h
        union = key.queries * (1 - (1 - min(1, key.topk / key.queries)) ** tokens)  # S_kv = S
        tiles = key.queries / tokens * union / TILE_ROWS * -(-key.heads // block_h)
        ms = tiles / SMS * us * 1e-3 * key.d_qk / 576
        if how in self.flops:
            ms = max(ms, tiles * 2 * 64 * TILE_ROWS * (3 * key.d_qk + 2 * D_V) / self.flops[how] * 1e3)
        return tflops(key, ms)


def tflops(key, ms):
    return 2e-9 * key.queries * key.heads * key.topk * (3 * key.d_qk + 2 * D_V) / ms


def objects(text):
    """JSON values one after another."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        yield from value if isinstance(value, list) else [value]


def rows_of_peers(data):
    for row in data["rows"]:
        impl = row["impl"]
        ours = impl.startswith("smla")
        if ours and impl.removeprefix("smla") not in ("", "_partial", "_deterministic"):
            continue  # a schedule that was forced
        sums = impl.removeprefix("smla_") if "_" in impl and ours else "fp32"
        lists = "causal" if row.get("causal") else row.get("lists", "random")
        yield Key("smla" if ours else impl, sums, row["H"], row["D"], row["topk"], row["S"], lists, "run"), row["ms"]


def rows_of_typed(data):
    for row in data["rows"]:
        sums = "deterministic" if row.get("deterministic") else row.get("accumulate", "fp32")
        for how in ("run", "cool", "steady"):
            if f"{how}_ms" in row:
                yield (Key(row.get("impl", "smla"), sums, row["heads"], row["d_qk"], row["topk"], row["queries"],
                           row.get("lists", "random"), how), row[f"{how}_ms"])


def rows_of_bench(data):
    problem, lengths = data["problem"], data["lengths"]
    sums = "deterministic" if problem["deterministic"] else problem["accumulate"]
    if lengths["batch"] != 1 or lengths["keys"] != lengths["queries"] or problem["kv_groups"] != 1:
        return  # S = S_kv is what the pictures show
    lists = "causal" if problem["causal"] else data["lists"]
    for how in ("cool", "steady"):
        yield (Key("smla", sums, problem["heads"], problem["d_v"] + problem["d_tail"], lengths["topk"],
                   lengths["queries"], lists, how), data["call"][f"{how}_ms"])


def is_typed(data):
    return "rows" in data and not any("H" in row for row in data["rows"])


def read(files):
    """{Key: milliseconds}, Limits. Of several runs in a file the median counts."""
    everything, limits = {}, Limits()
    contents = []
    for file in files:
        with open(file, encoding="utf-8") as stream:
            values = list(objects(stream.read()))
        date = re.search(r"\d{4}-\d\d-\d\d", os.path.basename(file))
        written = not any(is_typed(data) for data in values)
        contents.append((date.group() if date else "", written, os.path.basename(file), values))
    for _, _, file, values in sorted(contents, key=lambda c: c[:3]):
        found = collections.defaultdict(list)
        for data in values:
            if "rows" in data:
                reader = rows_of_typed if is_typed(data) else rows_of_peers
            elif "call" in data:
                reader = rows_of_bench
            elif not data.get("limits"):
                raise SystemExit(f"{file}: neither rows, nor what smla-bench --json prints")
            else:
                reader = lambda _: ()
            for key, ms in reader(data):
                found[key].append(ms)
            if data.get("limits"):
                limits.read(data["limits"], f"measured, {file}")
        everything.update({key: statistics.median(times) for key, times in found.items()})
    return everything, limits
