#include "scheduler/stream_writes.h"

#include <algorithm>

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

// A program writes the same places again and again.
void StreamWrites::Note(Stream& stream, const MemoryRanges& written) {
  if (stream.anything) return;
  for (const MemoryRange& range : written.all()) stream.written.Add(range);
  if (stream.written.size() <= kMostPieces) return;
  stream.anything = true;
  stream.written.Clear();
}

void StreamWrites::TellOthers(Session* session, const engine::OpView& op,
                              bool may_wait) {
  const MemoryRanges written = WrittenBy(op);
  if (!written.empty()) {
    {
      const base::MutexLock lock(mutex_);
      for (Stream& stream : streams_) {
        if (stream.session == session) Note(stream, written);
      }
    }
    for (Session* other : OthersThan(session)) {
      other->InterruptIfUsed(written, kWritten);
    }
  }
  if (may_wait) BeforeWait(nullptr);
}

void StreamWrites::BeforeWait(const Session* session) {
  if (!several()) return;
  std::vector<Stream> writers;
  {
    const base::MutexLock lock(mutex_);
    for (Stream& stream : streams_) {
      if (stream.written.empty() && !stream.anything) continue;
      writers.push_back(stream);
      if (stream.session != session) continue;
      stream.written.Clear();
      stream.anything = false;
    }
  }
  for (const Stream& writer : writers) {
    for (Session* other : OthersThan(writer.session)) {
      if (writer.anything) {
        (void)other->Interrupt(kWritten);
      } else {
        other->InterruptIfUsed(writer.written, kWritten);
      }
    }
  }
}

}  // namespace reprise::scheduler
