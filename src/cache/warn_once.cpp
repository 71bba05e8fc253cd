#include "cache/warn_once.h"

#include <mutex>
#include <set>

#include "base/log.h"

namespace smla::core {

void warn_once(const std::string& sentence) {
  static std::mutex mutex;
  static std::set<std::string> said;
  {
    const std::lock_guard lock(mutex);
    if (!said.insert(sentence).second) return;
  }
  warn("{}", sentence);
}

}  // namespace smla::core
