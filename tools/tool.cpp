#include "tool.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>

#include "answer.h"

namespace smla::core {
namespace {

ExitCode say(ExitCode code, const std::string& sentence) {
  const std::string line = sentence + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

// What CLI11 lets pass. An empty value is a variable of a script that was never set: `clear --dir "$UNSET"`
// must not clear another directory. A negative number for an unsigned one would wrap round.
void refuse_odd_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) stop(ExitCode::usage, "{} = \"\" is empty", option->get_name());
      if (option->get_type_name() == "UINT" && value.front() == '-')
        stop(ExitCode::usage, "{} = {} is negative; the least is 0", option->get_name(), value);
    }
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_odd_values(*command);
}

ExitCode parse_and_run(CLI::App& app, int argc, char** argv, const std::function<ExitCode()>& body) {
  try {
    app.parse(argc, argv);
    refuse_odd_values(app);
    return body();
  } catch (const CLI::ParseError& end) {  // --help and --version end here too
    std::ostringstream answer, complaint;
    if (app.exit(end, answer, complaint) != 0)
      return say(ExitCode::usage, fmt::format("smla: {}; see --help", end.what()));
    print_answer(answer.str());
    return ExitCode::ok;
  }
}

}  // namespace

void describe_tool(CLI::App& app, const std::string& examples, std::initializer_list<ExitCode> codes) {
  app.set_version_flag("--version", std::string("smla ") + SMLA_VERSION);
  app.footer("Examples:\n" + examples + "\n" + exit_code_table(codes));
  app.get_formatter()->column_width(34);
}

int run_tool(CLI::App& app, int argc, char** argv, const std::function<ExitCode()>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error of write(), reported like a full disk
  ExitCode code = ExitCode::ok;
  try {
    code = parse_and_run(app, argc, argv, body);
  } catch (const Error& error) {
    code = say(exit_code(error.status()), error.what());
  } catch (const ToolError& error) {
    code = say(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    code = say(ExitCode::internal, "smla: out of memory");
  } catch (const std::length_error&) {  // of a container: more than any memory holds
    code = say(ExitCode::internal, "smla: out of memory");
  } catch (const std::exception& error) {
    code = say(ExitCode::internal, std::string("smla: ") + error.what());
  }
  return static_cast<int>(code);
}

}  // namespace smla::core
