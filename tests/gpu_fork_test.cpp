// A program of its own, since its first use of the driver has to come after a fork.
#include <string>

#include "cases_of_options.h"
#include "catch.h"
#include "child.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

// "no GPU", or "right" when a call's gradients are within their bounds.
std::string run_a_call() {
  std::string why;
  if (!driver_available(&why)) return "no GPU";
  const CurrentDevice current(device_properties(0).handle);
  Case c{.problem = {.heads = 64, .lse_base = LseBase::e}};
  c.tensors = make_inputs(c.problem, {.queries = 9, .keys = 150, .topk = 70}, 80);
  const Gradients want = backward(c.problem, c.tensors);
  const Gradients got = widened(c.problem, run_on_gpu(c));
  const double bound = accuracy_bound(c.problem.dtype);
  const bool right = is_close(difference(got.d_q, want.d_q), want.d_q, bound, 0) &&
                     is_close(difference(got.d_kv, want.d_kv), want.d_kv, bound, 0);
  return right ? "right" : "wrong gradients";
}

}  // namespace

TEST_CASE("C55: children forked before the first use of a GPU use it, and so does their parent", "[gpu]") {
  ::setenv("SMLA_CACHE_DIR", SMLA_BINARY_DIR "/test-cache", 0);
  const ChildResult first = in_child(run_a_call);
  if (first.output == "no GPU") SKIP("no GPU");
  CHECK(first.output == "right");
  Child second(run_a_call), third(run_a_call);
  CHECK(second.wait().output == "right");
  CHECK(third.wait().output == "right");
  CHECK(run_a_call() == "right");
}
