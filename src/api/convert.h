// The C structs of include/smla/smla.h and the values of the rooms.
#pragma once

#include "config/config.h"
#include "plan/call.h"
#include "plan/lengths.h"
#include "problem/problem.h"
#include "smla/smla.h"

namespace smla::core {

// What smla_problem_init and smla_config_init set.
smla_problem default_problem();
smla_config default_config();

// Contiguous strides, no pointers, no scale.
smla_call default_call(const smla_problem* problem, const smla_lengths& lengths);

// Error invalid_argument: null, a bad struct_size, an enum or flag without meaning. Whether the values work
// is for validate() and choose_config().
Problem to_problem(const smla_problem* problem);
ConfigRequest to_request(const smla_config* config);  // null: nothing is forced

// The lengths and the order that they carry.
struct LengthsAndOrder {
  Lengths lengths;
  OrderRequest order = OrderRequest::automatic;
};
LengthsAndOrder to_lengths(const smla_lengths* lengths);

Call to_call(const smla_call* call);

}  // namespace smla::core
