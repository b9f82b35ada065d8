#pragma once

// Several threads doing the same thing for a set time, and the sum of their rates.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ragged::bench {

// `work(worker)` does one slice (some tens of microseconds) and returns its amount. Each of
// `threads` threads, the caller's being worker 0, starts when all are there and repeats the slice
// for about `seconds`. Returns the sum over threads of amount per second.
template <typename Work>
double parallel_rate(int threads, double seconds, Work work) {
  using clock = std::chrono::steady_clock;
  std::atomic<int> waiting{threads};
  std::vector<double> rates(static_cast<std::size_t>(threads), 0.0);
  const auto body = [&](int worker) {
    work(worker);  // wakes the wide units and warms the caches
    waiting.fetch_sub(1);
    while (waiting.load(std::memory_order_acquire) > 0) {
    }
    const auto start = clock::now();
    double amount = 0.0;
    double elapsed = 0.0;
    do {
      amount += work(worker);
      elapsed = std::chrono::duration<double>(clock::now() - start).count();
    } while (elapsed < seconds);
    rates[static_cast<std::size_t>(worker)] = amount / elapsed;
  };
  std::vector<std::thread> others;
  for (int worker = 1; worker < threads; ++worker) others.emplace_back(body, worker);
  body(0);
  for (auto& other : others) other.join();
  double sum = 0.0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace ragged::bench
