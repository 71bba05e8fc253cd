#!/usr/bin/env python3
"""Draws the schedules: schedule-wgmma-fp32.svg and -partial.svg (who does what when, by schedule_model.py), rows.svg (whose
the 64 rows of a CTA are), schedule-cp_async.svg. Constants come from the templates and src/config.

usage: draw_schedules.py [--check]

--check writes nothing and exits with 1 where a picture is not what the code's constants make of it."""

import glob
import os
import sys

import measurements
import schedule_model as model
from draw_speed import HERE, settle
from measurements import SMS, TILE_ROWS, Key
from svg import Picture

LANES = {"gather": 44, "score": 128, "gradient": 212}
HEIGHT = 46


def colour_of(kind, label):
    if kind == "gather":
        return "quiet"
    if label in ("S", "dP"):
        return "blue"
    if label == "P, dS":
        return "yellow"
    return "teal" if label.startswith("d_q") else "orange"


def measured_tile(measured, sums):
    """What 64 heads at 4,096 tokens take a tile of one SM, preprocess and the rest included."""
    words = []
    for how in ("cool", "steady"):
        ms = measured.get(Key("smla", sums, 64, 576, 2048, 4096, "random", how))
        if ms:
            words.append(f"{ms * 1e3 * SMS / (4096 * 2048 / TILE_ROWS):.2f} us {how}")
    return f"Measured, a whole call of 4,096 tokens by its tiles: {', '.join(words)}." if words else "Not measured."


def wgmma(sum_bytes, title, measured):
    shape, done = model.simulate(sum_bytes=sum_bytes)
    clocks = model.period(done)
    begin = model.begin_of(done, "score", 3) - 200
    end = begin + 2 * clocks + 300
    picture = Picture(960, 368, title)
    picture.text(14, 24, title, "ink", 14, bold=True)
    x_of = lambda clock: 100 + 846 * (clock - begin) / (end - begin)
    registers = {"gather": shape.few_registers, "score": shape.many_registers, "gradient": shape.many_registers}
    for lane, y in LANES.items():
        picture.text(14, y + 18, lane, "ink", 13, bold=True)
        picture.text(14, y + 34, f"{registers[lane]} registers", "quiet", 10)
        picture.rect(100, y, 846, HEIGHT, "rule", 0.35)
    for lane, kind, label, tile, first, last in done:
        if last < begin or first > end or tile > 5:
            continue
        left, right = max(x_of(first), 100), min(x_of(last), 946)
        picture.rect(left, LANES[lane], right - left, HEIGHT, colour_of(kind, label), {3: 0.95, 4: 0.6}.get(tile, 0.25), "page")
        if kind in ("both", "net"):  # reductions are on their way
            picture.rect(left, LANES[lane] + HEIGHT - 9, right - left, 9, "purple", 0.9)
        short = label if right - left > 5.5 * len(label) + 1 else ""
        if kind == "gather":
            short = label if right - left > 8 else ""
        picture.text((left + right) / 2, LANES[lane] + 22, short, "page" if tile in (3, 4) else "quiet", 10, "middle", True)

    def handed(lane_from, lane_to, kind, label, tile, name, shift=0):
        at = [last for lane, k, l, t, _, last in done if lane == lane_from and t == tile and (k, l) == (kind, label)][-1]
        down = LANES[lane_to] > LANES[lane_from]
        y1 = LANES[lane_from] + (HEIGHT if down else 0)
        y2 = LANES[lane_to] + (0 if down else HEIGHT)
        if begin < at < end:
            picture.line(x_of(at), y1, x_of(at), y2, "ink", 1.2, "2 2")
            picture.text(x_of(at) + 4, (y1 + y2) / 2 + 4 + shift, name, "ink", 10)

    for tile in (3, 4):
        handed("gather", "score", "gather", "0", tile, "full 0", 9)
        handed("score", "gradient", "delay", "P, dS", tile, "P_READY")
        handed("gradient", "score", "both", "d_q right", tile, "P_FREE")
        handed("score", "gather", "tensor", "d_q left", tile, "empty 0, 1", -6)

    y = 278
    entries = [("quiet", "cp.async of 3 panels of kv"), ("blue", "wgmma: S, dP"), ("yellow", "exp2, dS, packing"),
               ("teal", "wgmma: d_q"), ("orange", "wgmma: d_kv"), ("purple", "its reductions leave")]
    x = 100
    for colour, text in entries:
        picture.rect(x, y, 12, 12, colour, 0.9)
        picture.text(x + 17, y + 10, text, "ink", 11)
        x += 34 + 6.2 * len(text)
    tensor = shape.matrix(2 * shape.d_v + 3 * shape.d_qk)
    network = shape.tile * shape.d_qk * sum_bytes / model.REDUCE_BYTES_A_CLOCK
    picture.text(100, y + 36, f"Modelled: a tile of {shape.tile} kv rows every {clocks:,.0f} clocks "
                 f"({clocks / model.GHZ / 1e3:.2f} us at {model.GHZ} GHz); tensor cores busy {100 * tensor / clocks:.0f} %, "
                 f"reductions {100 * network / clocks:.0f} % of it.", "ink", 12)
    picture.text(100, y + 54, measured, "ink", 12)
    picture.text(100, y + 72, "A model with measured rates, not a trace: no latencies, no power limit. Tile j is strong, tile j + 1 "
                 "paler; gaps are waits.", "quiet", 11)
    return picture.svg()


def rows():
    """Whose the 64 rows of a CTA are."""
    shape = model.Shape()
    picture = Picture(960, 300, "The 64 rows of a CTA of the schedule wgmma")
    picture.text(14, 24, f"The {shape.rows} rows of q and d_o of a CTA: neighbouring tokens share the union of their lists",
                 "ink", 14, bold=True)
    for i, heads in enumerate((64, 32, 16, 8)):
        x, tokens = 30 + i * 235, shape.rows // heads
        picture.text(x, 52, f"{heads} heads: {tokens} token{'s' if tokens > 1 else ''}", "ink", 12, bold=True)
        colours = ("blue", "green", "orange", "purple", "teal", "yellow", "quiet", "ink")
        for token in range(tokens):
            height = 192 / tokens
            picture.rect(x, 62 + token * height, 60, height, colours[token], 0.75, "page")
            if height > 14:
                picture.text(x + 30, 62 + token * height + height / 2 + 4, f"s + {token}" if token else "s", "page", 11,
                             "middle", True)
        for row in range(8):  # of a tile of the union, and whose each is
            y = 62 + row * 24
            picture.rect(x + 88, y, 60, 20, "rule", 0.8)
            named = [token for token in range(tokens) if (row * 2654435761 >> (7 + 3 * token)) & 1 or token == row % tokens]
            for token in named:
                picture.rect(x + 90 + token * 7, y + 4, 6, 12, colours[token], 0.9)
        union = 1 - 0.5 ** tokens
        picture.text(x, 274, f"random lists, half of all rows: {4096 * union:,.0f} rows", "quiet", 10)
        picture.text(x, 288, f"instead of {tokens * 2048:,}", "quiet", 10)
    picture.text(30 + 160, 72, "kv rows", "quiet", 10)
    return picture.svg()


def cp_async():
    source = "src/config/cp_async.cpp"
    stages = model.constant(source, r"kDefaultStages = (\d+)")
    size = model.constant(source, r"kDefaultBlockSize = (\d+)")
    heads = model.constant(source, r"kLargestBlockH = (\d+)")
    picture = Picture(960, 270, "The schedule cp_async")
    picture.text(14, 24, f"Schedule cp_async: all warps together, {size} kv rows a step, {stages} buffers, up to {heads} heads",
                 "ink", 14, bold=True)
    parts = [("S and dP", 576 + 512, "blue"), ("exp2, dS", 300, "yellow"), ("d_q", 576, "teal"),
             ("d_kv, 16 columns at a time, to reductions", 576 + 512, "orange")]
    scale = 400 / sum(width for _, width, _ in parts)
    for step in range(2):
        x = 100 + step * 420
        picture.rect(x, 60, 250, 40, "quiet", 0.7 - 0.3 * step)
        picture.text(x + 125, 84, f"gather of step {'j + 1' if step == 0 else 'j + 2'}, cp.async", "ink", 11, "middle")
        for name, width, colour in parts:
            picture.rect(x, 120, width * scale, 54, colour, 0.95 - 0.35 * step, "page")
            if colour == "orange":
                picture.rect(x, 164, width * scale, 10, "purple", 0.9)
            label = name if 5.6 * len(name) < width * scale else name.split(",")[0]
            picture.text(x + width * scale / 2, 145, label, "page", 11, "middle", True)
            x += width * scale
            if colour == "yellow":
                picture.line(x, 112, x, 182, "ink", 1.5, "3 3")
        picture.line(100 + step * 420 - 6, 50, 100 + step * 420 - 6, 190, "ink", 1.5, "3 3")
    picture.text(14, 84, "copies", "ink", 13, bold=True)
    picture.text(14, 150, "all warps", "ink", 13, bold=True)
    picture.text(100, 210, "Dashed: __syncthreads (the tile has landed; P and dS are written). Purple: reductions leave as each 16 "
                 "columns are done.", "ink", 11)
    picture.text(100, 228, "Widths are the matrix work (floating-point operations), not time; exp2 and dS are a guess.", "quiet", 11)
    picture.text(100, 246, "What does not fit the shared memory of an arch gives up buffers, then rows a step, then heads.", "quiet", 11)
    return picture.svg()


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    measured, _ = measurements.read(glob.glob(os.path.join(HERE, "*.json")))
    wanted = {
        "schedule-wgmma-fp32.svg": wgmma(4, "Schedule wgmma, fp32 sums: 64 rows x 64 kv rows x 576 columns",
                                         measured_tile(measured, "fp32")),
        "schedule-wgmma-partial.svg": wgmma(2, "Schedule wgmma, partial sums: half the bytes, the matrices decide",
                                            measured_tile(measured, "partial")),
        "rows.svg": rows(),
        "schedule-cp_async.svg": cp_async(),
    }
    sys.exit(settle(wanted, "--check" in sys.argv))


if __name__ == "__main__":
    main()
