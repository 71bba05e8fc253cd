// The flags that say what is computed and how, the same in every tool.
#pragma once

#include <CLI/CLI.hpp>

#include "config/config.h"
#include "problem/problem.h"

namespace smla::core {

struct ProblemFlags {
  Problem problem;        // heads = 0: --heads was not given
  ConfigRequest request;  // what the command line forces
};

// `flags` outlives the parsing. A value of a wrong word is an Error (invalid_argument) that names the words
// that work; the numbers are judged later, by validate() and choose_config().
void add_problem_flags(CLI::App& app, ProblemFlags& flags);

}  // namespace smla::core
