#include "scheduler/stream_writes.h"

#include <utility>

namespace reprise::scheduler {
namespace {

constexpr char kWritten[] = "another stream writes memory that is used here";

std::vector<MemoryRange> WrittenBy(const engine::OpView& op) {
  std::vector<MemoryRange> written;
  for (const engine::Operand& operand : op.operands) {
    if (!operand.written) continue;
    written.push_back({operand.base, operand.base + operand.storage_bytes});
  }
  return written;
}

}  // namespace

void StreamWrites::Add(Session* session) {
  const base::MutexLock lock(mutex_);
  streams_.push_back({session, {}, false});
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

void StreamWrites::TellOthers(Session* session, const engine::OpView& op,
                              bool waits) {
  const std::vector<MemoryRange> written = WrittenBy(op);
  if (!written.empty()) {
    {
      const base::MutexLock lock(mutex_);
      for (Stream& stream : streams_) {
        if (stream.session != session) continue;
        if (stream.written.size() + written.size() > kMostPieces) {
          stream.anything = true;
          stream.written.clear();
        }
        if (!stream.anything) {
          stream.written.insert(stream.written.end(), written.begin(),
                                written.end());
        }
      }
    }
    for (Session* other : OthersThan(session)) {
      other->InterruptIfUsed(written, kWritten);
    }
  }
  if (waits) BeforeWait(session);
}

void StreamWrites::BeforeWait(const Session* session) {
  if (!several_.load(std::memory_order_acquire)) return;
  std::vector<Stream> waited_for;
  {
    const base::MutexLock lock(mutex_);
    for (Stream& stream : streams_) {
      if (session != nullptr && stream.session != session) continue;
      if (stream.written.empty() && !stream.anything) continue;
      waited_for.push_back({stream.session, std::exchange(stream.written, {}),
                            std::exchange(stream.anything, false)});
    }
  }
  for (const Stream& stream : waited_for) {
    for (Session* other : OthersThan(stream.session)) {
      if (stream.anything) {
        (void)other->Interrupt(kWritten);
      } else {
        other->InterruptIfUsed(stream.written, kWritten);
      }
    }
  }
}

}  // namespace reprise::scheduler
