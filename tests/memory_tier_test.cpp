#include "cache/memory_tier.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"

using smla::core::MemoryTier;
using namespace std::chrono_literals;

TEST_CASE("a value is built once and then found") {
  MemoryTier<std::string, int> tier;
  int builds = 0;
  const auto build = [&] { return 10 + ++builds; };
  REQUIRE(tier.get_or_build("a", build) == 11);
  REQUIRE(tier.get_or_build("a", build) == 11);
  REQUIRE(tier.get_or_build("b", build) == 12);
  REQUIRE(tier.find("a") == 11);
  REQUIRE(tier.find("c") == std::nullopt);
  REQUIRE(tier.size() == 2);
  tier.erase("a");
  REQUIRE(tier.get_or_build("a", build) == 13);
  tier.clear();
  REQUIRE(tier.size() == 0);
}

TEST_CASE("threads that ask for a key at once share one build") {
  MemoryTier<std::string, std::shared_ptr<int>> tier;
  std::atomic<int> builds = 0, waiting = 0;
  std::vector<std::shared_ptr<int>> values(8);
  std::vector<std::thread> threads;
  for (auto& value : values) {
    threads.emplace_back([&] {
      ++waiting;
      value = tier.get_or_build("key", [&] {
        while (waiting < 8) std::this_thread::yield();
        std::this_thread::sleep_for(20ms);  // the others are at the door by now
        ++builds;
        return std::make_shared<int>(7);
      });
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(builds == 1);
  for (const auto& value : values) REQUIRE(value == values.front());
}

TEST_CASE("a build in flight is neither found nor waited for by a lookup, nor does it hold up other keys") {
  MemoryTier<int, int> tier;
  std::atomic<bool> started = false, finish = false;
  std::thread builder([&] {
    tier.get_or_build(1, [&] {
      started = true;
      while (!finish) std::this_thread::yield();
      return 1;
    });
  });
  while (!started) std::this_thread::yield();
  const auto found = tier.find(1);
  const int other = tier.get_or_build(2, [] { return 2; });
  finish = true;
  builder.join();
  REQUIRE_FALSE(found.has_value());
  REQUIRE(other == 2);
  REQUIRE(tier.find(1) == 1);
}

TEST_CASE("a failed build reaches every waiter as the same exception and leaves the key usable") {
  MemoryTier<std::string, int> tier;
  std::atomic<int> builds = 0, waiting = 0;
  std::vector<const void*> caught(6, nullptr);
  std::vector<std::thread> threads;
  for (auto& where : caught) {
    threads.emplace_back([&] {
      ++waiting;
      try {
        tier.get_or_build("key", [&]() -> int {
          while (waiting < 6) std::this_thread::yield();
          std::this_thread::sleep_for(50ms);
          ++builds;
          throw std::runtime_error("no");
        });
      } catch (const std::runtime_error& error) {
        where = &error;  // only compared: one object for all
      }
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(builds == 1);
  for (const void* where : caught) {
    REQUIRE(where != nullptr);
    REQUIRE(where == caught.front());
  }
  REQUIRE(tier.size() == 0);
  REQUIRE(tier.get_or_build("key", [] { return 5; }) == 5);
}

TEST_CASE("a key that was cleared during its failing build may be built meanwhile") {
  MemoryTier<std::string, int> tier;
  REQUIRE_THROWS(tier.get_or_build("key", [&]() -> int {
    tier.clear();
    std::thread([&] { tier.get_or_build("key", [] { return 5; }); }).join();
    throw std::runtime_error("no");
  }));
  REQUIRE(tier.find("key") == 5);  // the failure took only its own slot away
}

TEST_CASE("a hit takes less than two microseconds") {
#if !defined(NDEBUG) || defined(SMLA_SANITIZED)
  SKIP("a figure of release builds");
#endif
  MemoryTier<std::string, std::shared_ptr<int>> tier;
  const std::string key(100, 'k');
  tier.get_or_build(key, [] { return std::make_shared<int>(1); });
  constexpr int kHits = 20000;
  auto best = std::chrono::nanoseconds::max();  // of several: other programs use this machine too
  for (int repeat = 0; repeat < 5; ++repeat) {
    int sum = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kHits; ++i) sum += *tier.get_or_build(key, [] { return std::make_shared<int>(2); });
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    REQUIRE(sum == kHits);
  }
  REQUIRE(best / kHits < 2us);
}
