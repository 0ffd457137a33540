// Streams of a simulated device: queues of work.

#ifndef REPRISE_TESTS_SIM_SIMULATED_STREAMS_H_
#define REPRISE_TESTS_SIM_SIMULATED_STREAMS_H_

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace reprise::sim {

// Work of a stream is done in the order of its enqueuing; between streams there
// is none, but that work of one `chain` (launches of one executable graph) is
// done in the order of its enqueuing on whatever streams. Single-thread.
class SimulatedStreams {
 public:
  using Work = std::function<void()>;
  static constexpr uint64_t kNoChain = 0;
  static constexpr size_t kMostPending = 64;  // at random pace

  // When enqueued work is done.
  enum class Pace : uint8_t {
    kAtOnce,    // within Enqueue
    kByHand,    // by Advance or Synchronize
    kAtRandom,  // some of it at each Tick besides
  };
  void SetPace(Pace pace, uint32_t seed = 0) {
    pace_ = pace;
    random_.seed(seed);
  }

  CUstream Make() {
    streams_.push_back(std::make_unique<Stream>());
    return reinterpret_cast<CUstream>(streams_.back().get());
  }
  bool Has(CUstream stream) const {
    for (const auto& one : streams_) {
      if (one.get() == StreamOf(stream)) return true;
    }
    return false;
  }

  void Enqueue(CUstream stream, Work work, uint64_t chain = kNoChain) {
    StreamOf(stream)->queue.push_back({std::move(work), chain, ++tickets_});
    if (pace_ == Pace::kAtOnce) Synchronize(stream);
    if (pace_ != Pace::kAtRandom) return;
    Tick();
    // A device's queue is not without end.
    while (pending(stream) > kMostPending) DoNext(*StreamOf(stream));
  }

  // Does the next `items` of a stream, or as many as there are.
  void Advance(CUstream stream, size_t items) {
    for (; items > 0 && !StreamOf(stream)->queue.empty(); --items) {
      DoNext(*StreamOf(stream));
    }
  }
  void Synchronize(CUstream stream) { Advance(stream, ~size_t{0}); }
  void SynchronizeAll() {
    for (const auto& stream : streams_) {
      while (!stream->queue.empty()) DoNext(*stream);
    }
  }
  // Time goes by.
  void Tick() {
    if (pace_ != Pace::kAtRandom || random_() % 4 != 0) return;
    // One that has work: streams do not wait for idle ones.
    const auto busy = static_cast<size_t>(std::count_if(
        streams_.begin(), streams_.end(),
        [](const auto& stream) { return !stream->queue.empty(); }));
    if (busy == 0) return;
    auto nth = static_cast<size_t>(random_() % busy);
    const auto chosen = std::find_if(
        streams_.begin(), streams_.end(), [&nth](const auto& stream) {
          return !stream->queue.empty() && nth-- == 0;
        });
    Stream& stream = **chosen;
    for (size_t n = random_() % 16; n > 0 && !stream.queue.empty(); --n) {
      DoNext(stream);
    }
  }

  size_t pending(CUstream stream) const {
    return StreamOf(stream)->queue.size();
  }

 private:
  struct Item {
    Work work;
    uint64_t chain;
    uint64_t ticket;
  };
  struct Stream {
    std::deque<Item> queue;
  };

  static Stream* StreamOf(CUstream stream) {
    return reinterpret_cast<Stream*>(stream);
  }

  bool HoldsEarlier(const Stream& stream, const Item& than) const {
    for (const Item& item : stream.queue) {
      if (item.chain == than.chain && item.ticket < than.ticket) return true;
    }
    return false;
  }
  void DoNext(Stream& stream) {
    const Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (item.chain != kNoChain) {
      for (const auto& other : streams_) {
        while (HoldsEarlier(*other, item)) DoNext(*other);
      }
    }
    item.work();
  }

  std::vector<std::unique_ptr<Stream>> streams_;
  Pace pace_ = Pace::kAtOnce;
  std::mt19937 random_;
  uint64_t tickets_ = 0;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_STREAMS_H_
