#include "device_limits_report.h"

#include <fmt/format.h>

namespace smla::core {

std::string limits_text(const DeviceProperties& device, const std::vector<MeasuredLimit>& limits) {
  std::string text = fmt::format("limits of {}, {} SMs, one CTA on each\n\n  {:<34} {:>8} {:>9} {:>9}\n",
                                 device.name, device.multiprocessors, "", "rows", "cool", "steady");
  for (const MeasuredLimit& l : limits) {
    const double cool = l.timing.cool, steady = l.timing.steady;
    if (l.rows > 0) {
      text += fmt::format(
          "  {:<34} {:>8} {:>9.2f} {:>9.2f} GB/s an SM {:>9.2f} {:>9.2f} TB/s {:>8.3f} {:>8.3f} us a tile\n",
          l.kernel.description, l.rows, l.per_sm(cool) * 1e-9, l.per_sm(steady) * 1e-9,
          l.in_all(cool) * 1e-12, l.in_all(steady) * 1e-12, l.tile_microseconds(cool),
          l.tile_microseconds(steady));
    } else {
      text += fmt::format("  {:<34} {:>8} {:>9.1f} {:>9.1f} TFLOPS\n", l.kernel.description, "",
                          l.in_all(cool) * 1e-12, l.in_all(steady) * 1e-12);
    }
  }
  return text +
         "\n  a tile: 64 rows of 576 columns; two things at once are counted in the bytes of the "
         "reductions\n";
}

Json limits_json(const std::vector<MeasuredLimit>& limits) {
  Json array = Json::array();
  for (const MeasuredLimit& l : limits) {
    Json limit = {{"name", l.kernel.name},
                  {"rows", l.rows > 0 ? Json(l.rows) : Json()},
                  {"cool_ms", l.timing.cool},
                  {"steady_ms", l.timing.steady}};
    const char* unit = l.rows > 0 ? "bytes_per_second" : "flops";
    limit[std::string("cool_") + unit] = l.in_all(l.timing.cool);
    limit[std::string("steady_") + unit] = l.in_all(l.timing.steady);
    if (l.rows > 0) {
      limit["cool_tile_us"] = l.tile_microseconds(l.timing.cool);
      limit["steady_tile_us"] = l.tile_microseconds(l.timing.steady);
    }
    array.push_back(limit);
  }
  return array;
}

Json least_time_json(const LeastTime& least) {
  const auto part = [](const LeastTime::Part& p) -> Json {
    return {{"memory_ms", p.memory}, {"matrices_ms", p.matrices}, {"ms", p.both()}};
  };
  return {{"cool", part(least.cool)}, {"steady", part(least.steady)}};
}

}  // namespace smla::core
