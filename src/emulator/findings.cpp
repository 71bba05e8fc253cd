#include "emulator/findings.h"

#include "emulator/machine.h"

namespace smla::core::emulator {
namespace {

// One finding a kind and place: a race shows in every tile.
void add(std::string_view kind, const std::string& text, const void* place, bool fatal) {
  Machine& m = machine();
  std::string who;
  if (in_lane()) {
    who = fmt::format("CTA {} warp {} lane {} at {}: ", me().cta->index, me().warp, me().lane,
                      place_mark(place));
  }
  if (m.report->findings.size() < m.options.most_findings &&
      m.reported.emplace(fmt::format("{} {}", kind, place), true).second) {
    m.report->findings.push_back({std::string(kind), who + text, fatal});
  }
  if (fatal) m.stopped = true;
}

}  // namespace

void found(std::string_view kind, const std::string& text, const void* place) {
  add(kind, text, place || !in_lane() ? place : me().place, false);
}

void found_fatal(std::string_view kind, const std::string& text) {
  add(kind, text, me().place, true);
  for (;;) me().fiber.leave();
}

void found_at_end(std::string_view kind, const std::string& text) {
  Machine& m = machine();
  m.report->findings.push_back({std::string(kind), text, true});
  m.stopped = true;
}

}  // namespace smla::core::emulator
