#include "emulator/places.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "emulator/emulated_text.h"
#include "emulator/findings.h"

namespace smla::core::emulator {
namespace {

constexpr std::string_view kOpen = "[[", kClose = "]]";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return lines;
}

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return line.substr(first, line.find_last_not_of(' ') - first + 1);
}

// The name of the part that a line lies in, from the generator's "// ======== name ========".
std::string_view part_of(const std::vector<std::string_view>& lines, std::size_t line) {
  constexpr std::string_view kMark = "// ======== ", kEnd = " ========";
  for (std::size_t i = std::min(line, lines.size()); i-- > 0;) {
    if (lines[i].starts_with(kMark) && lines[i].ends_with(kEnd)) {
      return lines[i].substr(kMark.size(), lines[i].size() - kMark.size() - kEnd.size());
    }
  }
  return "constants";
}

// Lines of the kernel's text for each address, by addr2line -a -i: "0x00..." and then "file:line" from the
// innermost call outwards.
std::map<std::string, std::vector<std::size_t>> look_up(const std::set<std::string>& marks) {
  std::map<std::string, std::vector<std::size_t>> found;
  std::map<std::string, std::string> mark_of_address;
  std::string library, command;
  for (const std::string& mark : marks) {
    const auto address = std::strtoull(mark.c_str(), nullptr, 16);
    Dl_info info;
    if (address == 0 || !dladdr(reinterpret_cast<void*>(address), &info))
      continue;  // NOLINT: an address as text
    library = info.dli_fname;
    // The call that returns there: one byte back.
    const std::string offset =
        fmt::format("0x{:x}", address - reinterpret_cast<unsigned long long>(info.dli_fbase) - 1);
    mark_of_address[offset] = mark;
    command += " " + offset;
  }
  if (library.empty()) return found;
  std::FILE* pipe =
      popen(fmt::format("addr2line -a -i -e '{}'{} 2>/dev/null", library, command).c_str(), "r");
  if (!pipe) return found;
  char buffer[4096];
  std::string mark;
  while (std::fgets(buffer, sizeof buffer, pipe)) {
    const std::string line(trimmed(std::string_view(buffer).substr(0, std::string_view(buffer).find('\n'))));
    if (line.starts_with("0x")) {
      mark = mark_of_address[fmt::format("0x{:x}", std::strtoull(line.c_str(), nullptr, 16))];
    } else if (const auto at = line.find(kGeneratedFile); at != std::string::npos) {
      const auto number = line.find(':', at);
      if (number != std::string::npos)
        found[mark].push_back(std::strtoull(line.c_str() + number + 1, nullptr, 10));
    }
  }
  pclose(pipe);
  return found;
}

// Wrappers say nothing that their callers do not.
bool is_wrapper(std::string_view part) {
  return part.starts_with("operand");
}

std::string place_text(const std::vector<std::size_t>& chain, const std::vector<std::string_view>& lines) {
  std::string text;
  for (const std::size_t line : chain) {
    if (line == 0 || line > lines.size()) continue;
    const std::string_view part = part_of(lines, line);
    if (is_wrapper(part)) continue;
    if (text.empty()) {
      text = fmt::format("line {} ({}) `{}`", line, part, trimmed(lines[line - 1]));
    } else {
      text += fmt::format(" < line {}", line);
    }
  }
  return text;
}

}  // namespace

std::string place_mark(const void* place) {
  return fmt::format("{}{}{}", kOpen, place, kClose);
}

void resolve_places(Report& report, const std::string& text) {
  std::set<std::string> marks;
  const auto each_mark = [&](std::string& in, auto visit) {
    for (auto at = in.find(kOpen); at != std::string::npos; at = in.find(kOpen, at)) {
      const auto end = in.find(kClose, at);
      if (end == std::string::npos) return;
      visit(in, at, end);
    }
  };
  for (Finding& finding : report.findings) {
    each_mark(finding.text, [&](std::string& in, std::size_t& at, std::size_t end) {
      marks.insert(in.substr(at + kOpen.size(), end - at - kOpen.size()));
      at = end;
    });
  }
  if (marks.empty()) return;
  const auto places = look_up(marks);
  const auto lines = lines_of(text);
  for (Finding& finding : report.findings) {
    each_mark(finding.text, [&](std::string& in, std::size_t& at, std::size_t end) {
      const std::string mark = in.substr(at + kOpen.size(), end - at - kOpen.size());
      const auto known = places.find(mark);
      std::string place = known == places.end() ? "" : place_text(known->second, lines);
      if (place.empty()) place = "machine code " + mark;
      in.replace(at, end + kClose.size() - at, place);
      at += place.size();
    });
  }
}

}  // namespace smla::core::emulator
