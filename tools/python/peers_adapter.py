"""smla for a harness that times implementations side by side: makers() -> {name: maker}, maker() -> build, and
build(q, kv, o, do, indices, lse, scale) -> a function without arguments that runs one call and returns (d_q, d_kv).
lse is the natural logarithm; the lists alone say what is attended to."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import smla


def _maker(**forced):
    def build(q, kv, o, do, indices, lse, scale):
        return lambda: smla.sparse_mla_bwd(q, kv, o, do, indices, lse, sm_scale=scale, is_causal=False, lse_base="e",
                                           **forced)

    return lambda: build


def makers():
    return {"smla": _maker(), "smla_partial": _maker(accumulate="partial"),
            "smla_deterministic": _maker(deterministic=True), "smla_cp_async": _maker(schedule="cp_async")}
