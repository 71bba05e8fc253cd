#!/usr/bin/env python3
"""Draws speed-by-length.svg and speed-by-heads.svg and fills in README.md's tables, from the JSON files of this folder.

usage: draw_speed.py [--check] [FILE ...]

Without files: all *.json beside this script. --check writes nothing and exits with 1 where a picture or a table is not
what the files say. measurements.py describes the files."""

import argparse
import glob
import math
import os
import sys

import measurements
from measurements import Key, tflops
from svg import Picture

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = [4096, 8192, 16384, 32768, 65536]
HEADS = [8, 16, 32, 64, 96, 128]
SUMS = ["fp32", "partial", "deterministic"]
COLOUR = {"cudnn": "orange", "fp32": "blue", "partial": "green", "deterministic": "purple"}
NAME = {"cudnn": "cuDNN, short run", "fp32": "smla, fp32 sums", "partial": "smla, partial sums",
        "deterministic": "smla, deterministic"}


def of(measured, impl, sums, heads, queries, how, lists="random", d_qk=576, topk=2048):
    """Key and TFLOPS, or None."""
    key = Key(impl, sums, heads, d_qk, topk, queries, lists, how)
    return (key, tflops(key, measured[key])) if key in measured else None


def scale_top(measured):
    return 100 * math.ceil(max([500] + [tflops(key, ms) for key, ms in measured.items()]) / 100 + 0.2)


def axis(picture, left, right, y_of, top):
    for value in range(0, top + 1, 100):
        picture.line(left, y_of(value), right, y_of(value), "rule")
        picture.text(left - 6, y_of(value) + 4, str(value), "quiet", 11, "end")


def legend(picture, x, y, entries):
    for text, colour, dash, hollow in entries:
        picture.line(x, y - 4, x + 26, y - 4, colour, 2, dash)
        if hollow is not None:
            picture.circle(x + 13, y - 4, 3.5, colour, hollow)
        picture.text(x + 32, y, text, "ink", 12)
        x += 44 + 6.6 * len(text)


def by_length(measured, limits):
    panels = [64, 128, 16]
    width, height, top = 300, 300, scale_top(measured)
    picture = Picture(3 * width + 60, height + 135, "TFLOPS of a whole call against the number of tokens")
    picture.text(14, 22, "Whole call, TFLOPS against S = S_kv: 576 columns, topk 2,048, random lists, bf16, one H200",
                 "ink", 14, bold=True)
    legend(picture, 14, 46, [(NAME[who], COLOUR[who], None, who == "cudnn") for who in ("cudnn", *SUMS)])
    legend(picture, 14, 66, [("steady: under load, power-capped", "quiet", None, False),
                             ("cool: first calls after a rest", "quiet", "5 4", True),
                             ("the limit with fp32 sums", "quiet", "1 3", None)])
    y_of = lambda value: 90 + height * (1 - value / top)
    for panel, heads in enumerate(panels):
        left, right = 46 + panel * (width + 6), 46 + panel * (width + 6) + width - 40
        x_of = lambda s, left=left, right=right: left + 14 + (right - left - 28) * math.log2(s / LENGTHS[0]) / 4
        axis(picture, left, right, y_of, top)
        picture.text((left + right) / 2, y_of(0) + 34, f"{heads} heads", "ink", 13, "middle", True)
        for s in LENGTHS:
            picture.text(x_of(s), y_of(0) + 16, f"{s // 1024}k", "quiet", 11, "middle")
        limit = [(x_of(s), y_of(value)) for s in LENGTHS
                 if (value := limits.tflops(Key("smla", "fp32", heads, 576, 2048, s, "random", "cool"), "cool"))]
        picture.polyline(limit, "quiet", 1.5, "1 3")
        series = [("cudnn", "fp32", "run", None, True)]
        series += [("smla", sums, how, "5 4" if how == "cool" else None, how == "cool")
                   for sums in SUMS for how in ("cool", "steady")]
        for impl, sums, how, dash, hollow in series:
            found = [(s, of(measured, impl, sums, heads, s, how)) for s in LENGTHS]
            points = [(x_of(s), y_of(point[1])) for s, point in found if point]
            colour = COLOUR["cudnn" if impl == "cudnn" else sums]
            picture.polyline(points, colour, 2, dash)
            for x, y in points:
                picture.circle(x, y, 3.5, colour, hollow)
    return picture.svg()


def by_heads(measured, limits):
    height, top, group = 300, scale_top(measured), 148
    picture = Picture(len(HEADS) * group + 70, height + 110, "TFLOPS of a whole call by heads")
    picture.text(14, 22, "Whole call, TFLOPS by heads: 4,096 tokens, 576 columns, topk 2,048, random lists, bf16, one H200",
                 "ink", 14, bold=True)
    x = 14
    for who in ("cudnn", *SUMS):
        picture.rect(x, 36, 14, 12, COLOUR[who], 0.85)
        picture.text(x + 20, 47, NAME[who] + ("" if who == "cudnn" else ", steady"), "ink", 12)
        x += 36 + 6.6 * len(NAME[who] + ("" if who == "cudnn" else ", steady"))
    picture.line(x, 42, x + 16, 42, "ink", 2)
    picture.text(x + 22, 47, "cool", "ink", 12)
    picture.line(x + 64, 42, x + 80, 42, "quiet", 1.5, "1 3")
    picture.text(x + 86, 47, "limit, fp32 sums", "ink", 12)
    y_of = lambda value: 70 + height * (1 - value / top)
    axis(picture, 46, 46 + len(HEADS) * group, y_of, top)
    for i, heads in enumerate(HEADS):
        left = 46 + i * group + 12
        bars = [("cudnn", "cudnn", "fp32", "run")] + [(sums, "smla", sums, "steady") for sums in SUMS]
        for bar, (colour, impl, sums, how) in enumerate(bars):
            point = of(measured, impl, sums, heads, 4096, how)
            if not point:
                continue
            x, value = left + bar * 31, point[1]
            picture.rect(x, y_of(value), 27, y_of(0) - y_of(value), COLOUR[colour], 0.85)
            cool = of(measured, impl, sums, heads, 4096, "cool")
            if cool:
                picture.line(x, y_of(cool[1]), x + 27, y_of(cool[1]), "ink", 2)
            picture.text(x + 13.5, y_of(value) + 14, f"{value:.0f}", "page", 11, "middle", True)
        limit = limits.tflops(Key("smla", "fp32", heads, 576, 2048, 4096, "random", "cool"), "cool")
        if limit:
            picture.line(left - 6, y_of(limit), left + 4 * 31, y_of(limit), "quiet", 1.5, "1 3")
        picture.text(left + 60, y_of(0) + 18, f"{heads} heads", "ink", 12, "middle")
    return picture.svg()


def cell(measured, impl, sums, heads, d_qk, topk, queries, lists, how):
    key = Key(impl, sums, heads, d_qk, topk, queries, lists, how)
    if key not in measured:
        return "–"
    return f"{measured[key]:.{2 if measured[key] < 100 else 1}f} ({tflops(key, measured[key]):.0f})"


def table(measured, limits):
    """A line a shape: ms (TFLOPS), and the share of the limit."""
    shapes = sorted({(k.d_qk, k.topk, k.heads, k.queries, k.lists) for k in measured},
                    key=lambda s: (-s[0], -s[1], -s[2], s[3], s[4]))
    lines = ["| heads, d_qk, topk, S, lists | cuDNN, short run | fp32 sums in that run | partial in that run | fp32 sums: cool; "
             "steady | of the limit | partial: cool; steady | of the limit | deterministic: cool; steady |",
             "|---|---|---|---|---|---|---|---|---|"]
    for d_qk, topk, heads, queries, lists in shapes:
        row = lambda impl, sums, how: cell(measured, impl, sums, heads, d_qk, topk, queries, lists, how)
        both = lambda sums: (f"{row('smla', sums, 'cool')}; {row('smla', sums, 'steady')}"
                             if row("smla", sums, "cool") != "–" else "–")

        def share(sums):
            key = Key("smla", sums, heads, d_qk, topk, queries, lists, "")
            shares = []
            for how in ("cool", "steady"):
                limit = limits.tflops(key, how)
                if limit is None or key._replace(how=how) not in measured:
                    return "–"
                shares.append(f"{100 * tflops(key, measured[key._replace(how=how)]) / limit:.0f} %")
            return "; ".join(shares)

        def beside(sums):
            """In the run of the peers, with how many times as fast."""
            peer, own = (Key(impl, how, heads, d_qk, topk, queries, lists, "run")
                         for impl, how in (("cudnn", "fp32"), ("smla", sums)))
            faster = f", {measured[peer] / measured[own]:.2f} ×" if peer in measured and own in measured else ""
            return row("smla", sums, "run") + faster

        size = f"{queries // 1024}k" if queries % 1024 == 0 else str(queries)
        lines.append(f"| {heads}, {d_qk}, {topk}, {size}, {lists} | {row('cudnn', 'fp32', 'run')} | "
                     f"{beside('fp32')} | {beside('partial')} | {both('fp32')} | {share('fp32')} | {both('partial')} | "
                     f"{share('partial')} | {both('deterministic')} |")
    return "\n".join(lines + ["", f"The limit: {limits.source}."])


def with_table(readme, text):
    begin, end = "<!-- measured: written by draw_speed.py -->\n", "<!-- end -->"
    head, rest = readme.split(begin)
    return head + begin + text + "\n" + end + rest.split(end, 1)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    measured, limits = measurements.read(options.files or glob.glob(os.path.join(HERE, "*.json")))
    readme = os.path.join(HERE, "README.md")
    with open(readme, encoding="utf-8") as stream:
        page = stream.read()
    wanted = {"speed-by-length.svg": by_length(measured, limits), "speed-by-heads.svg": by_heads(measured, limits),
              "README.md": with_table(page, table(measured, limits))}
    sys.exit(settle(wanted, options.check))


def settle(wanted, check):
    """Writes the files, or says which are not as they should be. Returns the exit status."""
    stale = []
    for name, text in wanted.items():
        path = os.path.join(HERE, name)
        try:
            with open(path, encoding="utf-8") as stream:
                same = stream.read() == text
        except FileNotFoundError:
            same = False
        if same:
            continue
        if check:
            stale.append(name)
        else:
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            print(f"wrote {name}")
    if stale:
        print(f"{', '.join(stale)}: not what {os.path.basename(sys.argv[0])} makes now; run it and commit the result",
              file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    main()
