#include "scheduler/stream_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::scheduler {
namespace {

constexpr char kWritten[] = "another stream writes memory that is used here";

MemoryRanges WrittenBy(const engine::OpView& op) {
  MemoryRanges written;
  for (const engine::Operand& operand : op.operands) {
    if (!operand.written) continue;
    written.Add({operand.base, operand.base + operand.storage_bytes});
  }
  return written;
}

}  // namespace

void StreamWrites::Add(Session* session) {
  const base::MutexLock lock(mutex_);
  streams_.push_back({.session = session});
  several_.store(streams_.size() > 1, std::memory_order_release);
}

std::vector<Session*> StreamWrites::OthersThan(const Session* session) const {
  const base::MutexLock lock(mutex_);
  std::vector<Session*> others;
  for (const Stream& stream : streams_) {
    if (stream.session != session) others.push_back(stream.session);
  }
  return others;
}

// A program writes the same places again and again.
void StreamWrites::Written::Add(const Written& more) {
  if (anything) return;
  anything = more.anything;
  for (const MemoryRange& range : more.ranges.all()) ranges.Add(range);
  if (ranges.size() > kMostPieces) anything = true;
  if (anything) ranges.Clear();
}

void StreamWrites::TellOthers(Session* session, const engine::OpView& op,
                              bool may_wait) {
  const Written written{WrittenBy(op)};
  if (!written.none()) {
    {
      const base::MutexLock lock(mutex_);
      for (Stream& stream : streams_) {
        if (stream.session == session) stream.written.Add(written);
      }
    }
    for (Session* other : OthersThan(session)) {
      other->InterruptIfUsed(written.ranges, kWritten);
    }
  }
  if (may_wait) TellAll();
}

StreamWrites::Written StreamWrites::Stream::all() const {
  Written all = written;
  for (const Waited& before : waits) all.Add(before.written);
  return all;
}

uint64_t StreamWrites::BeforeWait(const Session* session) {
  static std::atomic<uint64_t> waits{0};
  if (!several()) return 0;
  uint64_t wait = 0;
  if (session != nullptr) {
    const base::MutexLock lock(mutex_);
    for (Stream& stream : streams_) {
      if (stream.session != session) continue;
      // What others have been told of may be enqueued behind the wait.
      if (book_ != nullptr && !book_->EmptyFor(kind_)) continue;
      wait = ++waits;
      stream.waits.push_back({std::exchange(stream.written, {}), wait});
      if (stream.waits.size() <= kMostWaits) continue;
      stream.waits[1].written.Add(stream.waits[0].written);
      stream.waits.pop_front();
    }
  }
  TellAll();
  return wait;
}

void StreamWrites::AfterWait(uint64_t wait) {
  if (!several()) return;
  TellAll();
  if (wait == 0) return;
  const base::MutexLock lock(mutex_);
  for (Stream& stream : streams_) {
    const auto ended = std::ranges::find(stream.waits, wait, &Waited::wait);
    if (ended == stream.waits.end()) continue;
    // What earlier waits are for is done, too.
    stream.waits.erase(stream.waits.begin(), std::next(ended));
  }
}

void StreamWrites::TellAll() {
  std::vector<std::pair<const Session*, Written>> writers;
  {
    const base::MutexLock lock(mutex_);
    for (const Stream& stream : streams_) {
      Written written = stream.all();
      if (!written.none()) {
        writers.emplace_back(stream.session, std::move(written));
      }
    }
  }
  for (const auto& [writer, written] : writers) {
    for (Session* other : OthersThan(writer)) {
      if (written.anything) {
        (void)other->Interrupt(kWritten);
      } else {
        other->InterruptIfUsed(written.ranges, kWritten);
      }
    }
  }
}

}  // namespace reprise::scheduler
