"""Who does what when in a CTA of the schedule wgmma, as a small simulation of its three warpgroups.

What is done, in which order, and which barrier hands it on comes from templates/backward_wgmma.cuh and
src/generator/gradient_sequence.cpp; their constants are read from the text. How long a thing takes alone comes from
kernels.md's measurements, in clocks at 1.755 GHz. Two things are shared: the tensor cores and the network to L2; who
uses one at the same time as another gets half of it. It is a model, not a trace: latencies are left out, and the time of
the softmax gradient is a guess (SOFTMAX).
"""

import os
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GHZ = 1.755
FLOPS_A_CLOCK = 4096               # of an SM's tensor cores: 16-bit operands, fp32 sums
REDUCE_BYTES_A_CLOCK = 28.7 / GHZ  # an SM, all SMs at it: kernels.md
GATHER_BYTES_A_CLOCK = 8.7e3 / 132 / GHZ
SOFTMAX = 400                      # exp2, dS, packing of 64 x 64 scores by one warpgroup: a guess


def constant(file, pattern):
    """An integer of a source file; its line has to be there, or the picture would be of other code."""
    with open(os.path.join(ROOT, file), encoding="utf-8") as stream:
        found = re.search(pattern, stream.read())
    if not found:
        raise SystemExit(f"{file} has nothing like {pattern}: the pictures have to follow the code")
    return int(found.group(1))


class Shape:
    """The constants of a tile, for 512 + 64 columns."""

    def __init__(self):
        layout, backward = "templates/wgmma_layout.cuh", "templates/backward_wgmma.cuh"
        sequence, config = "src/generator/gradient_sequence.cpp", "src/config/wgmma.cpp"
        self.rows = constant("src/config/wgmma.h", r"kWgmmaRows = (\d+)")
        self.tile = constant(config, r"kBlockSize = (\d+)")
        self.threads = constant(config, r"kThreads =\s+(\d+)")
        self.group_panels = constant("templates/wgmma_alone.cuh", r"group \* (\d+) : kQkPanels")
        self.chunk = constant("src/generator/sequence_text.h", r"kChunk = (\d+)")
        self.score_panels = constant(sequence, r"kScorePanels = (\d+)")
        self.score_d_q = constant(backward, r"store_d_q<(\d+)>\(args, 0, d_q\)") + 32
        self.few_registers = constant(backward, r"setmaxnreg_dec<(\d+)>")
        self.many_registers = constant(backward, r"setmaxnreg_inc<(\d+)>")
        self.d_qk, self.d_v = 576, 512
        self.panels, self.v_panels = self.d_qk // 64, self.d_v // 64

    def matrix(self, columns):
        """Clocks of 64 x 64 x columns."""
        return 2 * self.rows * self.tile * columns / FLOPS_A_CLOCK

    def d_kv(self, first, columns):
        """Clocks of d_kv's columns first .. first + columns: dS^T q, and P^T d_o below d_v."""
        return self.matrix(columns) * (2 if first < self.d_v else 1)


class Event:
    """Counts completions; a wait names how many it needs."""

    def __init__(self):
        self.count = 0


class Simulation:
    """Roles are generators of (kind, amount, label) with kinds tensor, net, both, delay, wait, mark; everything that took time
    is kept as (role, kind, label, tile, begin, end)."""

    STEP = 4.0

    def __init__(self):
        self.now, self.roles, self.done = 0.0, [], []

    def add(self, name, role):
        self.roles.append({"name": name, "role": role, "at": None})

    def run(self):
        for role in self.roles:
            self.advance(role)
        while any(r["at"] for r in self.roles):
            users = {use: sum(1 for r in self.roles if r["at"] and r["at"]["left"].get(use, 0) > 0) for use in ("tensor", "net")}
            self.now += self.STEP
            for r in self.roles:
                at = r["at"]
                if not at:
                    continue
                for use in at["left"]:
                    at["left"][use] -= self.STEP / max(1, users.get(use, 1))
            for r in self.roles:
                at = r["at"]
                if at and all(left <= 0 for left in at["left"].values()) and at["ready"]():
                    if at["kind"] != "wait":
                        self.done.append((r["name"], at["kind"], at["label"], at["tile"], at["begin"], self.now))
                    self.advance(r)

    def advance(self, r):
        for kind, amount, label, tile in r["role"]:
            left, ready = {}, lambda: True
            if kind == "wait":
                event, count = amount
                if event.count >= count:
                    continue
                ready = lambda event=event, count=count: event.count >= count
            elif kind == "signal":
                amount.count += 1
                continue
            elif kind == "both":
                left = {"tensor": amount[0], "net": amount[1]}
            else:
                left = {kind: amount}
            r["at"] = {"kind": kind, "label": label, "tile": tile, "begin": self.now, "left": left, "ready": ready}
            return
        r["at"] = None


def simulate(tiles=6, sum_bytes=4):
    """The parts of a CTA's tiles, with sums of so many bytes. sum_bytes 4: fp32, 2: partial."""
    shape, sim = Shape(), Simulation()
    full, empty = [Event() for _ in range(3)], [Event() for _ in range(3)]
    p_ready, p_free = Event(), Event()
    net = lambda columns: shape.tile * columns * sum_bytes / REDUCE_BYTES_A_CLOCK
    group_bytes = shape.tile * shape.group_panels * 64 * 2
    arrivals = (1, 2, 1)  # of a tile's groups: score, both, gradient warps

    def gather():
        for tile in range(tiles):
            for group in range(3):
                yield "wait", (empty[group], tile * arrivals[group]), "", tile
                yield "gather", group_bytes / GATHER_BYTES_A_CLOCK, f"{group}", tile
                yield "signal", full[group], "", tile

    def score():
        for tile in range(tiles):
            for group in range(3):
                yield "wait", (full[group], tile + 1), "", tile
                yield "tensor", shape.matrix(shape.group_panels * 64), "S", tile
            yield "tensor", shape.matrix(shape.d_v), "dP", tile
            yield "delay", SOFTMAX, "P, dS", tile
            yield "wait", (p_free, tile + 1), "", tile
            yield "signal", p_ready, "", tile
            yield "tensor", shape.matrix(shape.score_d_q), "d_q left", tile
            yield "signal", empty[0], "", tile
            yield "signal", empty[1], "", tile
            top = [shape.panels - 1 - i for i in range(shape.score_panels)]
            yield "tensor", shape.d_kv(top[0] * 64, 64), "d_kv", tile
            for panel in top[1:]:
                yield "both", (shape.d_kv(panel * 64, 64), net(64)), f"d_kv {panel * 64} ..", tile
            yield "net", net(64), "", tile

    def gradient():
        yield "signal", p_free, "", 0
        chunks = shape.d_qk // shape.chunk - 2 * shape.score_panels
        for tile in range(tiles):
            yield "wait", (p_ready, tile + 1), "", tile
            yield "tensor", shape.d_kv(0, shape.chunk), "", tile
            right = shape.matrix(shape.d_qk - shape.score_d_q)
            yield "both", (right + shape.d_kv(shape.chunk, shape.chunk), net(shape.chunk)), "d_q right", tile
            yield "signal", empty[1], "", tile
            yield "signal", empty[2], "", tile
            yield "signal", p_free, "", tile
            for chunk in range(1, chunks - 1):
                work = shape.d_kv((chunk + 1) * shape.chunk, shape.chunk)
                yield "both", (work, net(shape.chunk)), f"{chunk}", tile
            yield "net", net(shape.chunk), "", tile

    sim.add("gather", gather())
    sim.add("score", score())
    sim.add("gradient", gradient())
    sim.run()
    return shape, sim.done


def begin_of(done, role, tile):
    return min(begin for name, _, _, t, begin, _ in done if name == role and t == tile)


def period(done, tile=3):
    """Clocks from one tile to the next, when the pipeline is full."""
    return begin_of(done, "gradient", tile + 1) - begin_of(done, "gradient", tile)


if __name__ == "__main__":
    for name, size in (("fp32", 4), ("partial", 2)):
        clocks = period(simulate(sum_bytes=size)[1])
        print(f"{name}: {clocks:.0f} clocks a tile, {clocks / GHZ / 1e3:.2f} us")
