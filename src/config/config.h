// How it is computed: the schedule and its parameters. The rules that choose them live in choose_config and
// nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/arch.h"
#include "problem/problem.h"

namespace smla::core {

enum class Schedule {
  cp_async,    // sm_80 and later: one CTA a token and head block, mma.sync; the structure of TileLang's
               // sparse_mla_bwd
  wgmma,       // sm_90a: one CTA 64 heads, of one token or of several neighbours; three warpgroups
  wgmma_pair,  // sm_90a: two CTAs of a cluster 128 heads of a token; each reduces half of d_kv's columns
};

struct Config {
  Schedule schedule = Schedule::cp_async;
  int block_h = 0;  // heads of a token in a CTA; heads that the last block lacks are padded inside the kernel
  int block_size = 0;  // kv rows a step
  int stages = 0;      // buffers of kv rows
  int threads = 0;     // a CTA
  bool vector_reductions =
      false;  // d_kv is summed by red.v4.f32; scalar reductions where the arch lacks them

  bool operator==(const Config&) const = default;
};

// What a caller forces; the rest is chosen.
struct ConfigRequest {
  std::optional<Schedule> schedule = {};
  std::optional<int> block_h = {};
  std::optional<int> block_size = {};
  std::optional<int> stages = {};  // the seed's 0 means 1
  std::optional<int> threads = {};

  bool operator==(const ConfigRequest&) const = default;
};

// The largest lengths to expect, where they are known. Never part of a key.
struct Limits {
  std::optional<std::int64_t> batch = {}, queries = {}, keys = {}, topk = {};
};

struct Choice {
  Config config;
  std::vector<std::string> why;  // one sentence a decision
};

// Throws Error (not_supported or invalid_argument) when a forced value cannot work or nothing fits, with the
// value and the nearest that works.
Choice choose_config(const Problem& problem, const Arch& arch, const ConfigRequest& request = {},
                     const Limits& limits = {});

// What chooses the same blocks for the same problem with other sums of d_kv. The fallback of partial sums is
// asked for so, whatever is forced, tuned or chosen: then every order of lists of the one is an order of the
// other.
ConfigRequest same_blocks(const Config& config);

// NH of the seed: head blocks of one kv group.
int head_blocks(const Problem& problem, const Config& config);

// Neighbouring query tokens that share a CTA and the union of their lists. Schedule wgmma fills its 64 rows
// with 64 / block_h of them, 1, 2, 4 or 8; the others take one.
int block_tokens(const Config& config);

// CTAs of the backward that run as a cluster.
int cluster_ctas(const Config& config);

// Whether a schedule is built of wgmma: three warpgroups, panels in shared memory, row order for long
// contexts.
bool uses_wgmma(Schedule schedule);

// Dynamic shared memory of the backward kernel, in bytes.
int shared_memory_bytes(const Problem& problem, const Config& config);

// "wgmma-bh64-bs64-st1-th384": every field, in a fixed order.
std::string canonical_name(const Config& config);

std::string_view name(Schedule schedule);
Schedule parse_schedule(std::string_view text);

}  // namespace smla::core
