// The frame of every tool: command line, exceptions and exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <string>

#include "exit_codes.h"

namespace smla::core {

// Adds --version and, under the options, the examples and the exit codes that this tool can end with.
void describe_tool(CLI::App& app, const std::string& examples, std::initializer_list<ExitCode> codes);

// Parses the command line, runs `body` and turns whatever it throws into a sentence on stderr and an exit
// code.
int run_tool(CLI::App& app, int argc, char** argv, const std::function<ExitCode()>& body);

}  // namespace smla::core
