// main of every test executable: Catch2's session, then one line about what was skipped.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#else
#define CATCH_CONFIG_RUNNER
#endif
#include <cstdio>
#include <map>
#include <mutex>

#include "catch.h"

namespace {

std::mutex skips_mutex;

std::map<std::string, int>& skips() {
  static std::map<std::string, int> counts;
  return counts;
}

// "skipped N: reason (xK); ...", or "skipped 0".
std::string skipped_line() {
  int total = 0;
  std::string reasons;
  const std::lock_guard lock(skips_mutex);
  for (const auto& [reason, count] : skips()) {
    total += count;
    reasons += (reasons.empty() ? ": " : "; ") + reason + " (x" + std::to_string(count) + ")";
  }
  return "skipped " + std::to_string(total) + reasons;
}

#if SMLA_TEST_CATCH == 3
// Catch2 3 ends with its exit code 4 when every test was skipped, which is also its code for 4 failures.
bool all_skipped = false;

class OutcomeListener : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    const auto& cases = stats.totals.testCases;
    all_skipped = cases.skipped > 0 && cases.failed == 0 && cases.skipped == cases.total();
  }
};
CATCH_REGISTER_LISTENER(OutcomeListener)
#endif

}  // namespace

namespace {
std::string (*last_line)() = nullptr;
}  // namespace

void smla_test::print_at_end(std::string (*line)()) {
  last_line = line;
}

void smla_test::record_skip(const std::string& reason) {
  const std::lock_guard lock(skips_mutex);
  ++skips()[reason];
}

int main(int argc, char** argv) {
  Catch::Session session;
  int code = session.applyCommandLine(argc, argv);
  if (code != 0) return code;
  code = session.run();
  const auto& options = session.configData();
  if (options.listTests || options.listTags || options.listReporters || options.showHelp) return code;
#if SMLA_TEST_CATCH == 3
  if (all_skipped) code = 0;
#endif
  if (const std::string line = last_line ? last_line() : ""; !line.empty()) std::printf("%s\n", line.c_str());
  std::printf("%s\n", skipped_line().c_str());
  return code;
}
