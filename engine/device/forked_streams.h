// The order of an op's launches, where it forks streams beside its own.

#ifndef REPRISE_ENGINE_DEVICE_FORKED_STREAMS_H_
#define REPRISE_ENGINE_DEVICE_FORKED_STREAMS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace reprise::device {

// The launches, events and waits of one op of a library that forks streams of
// its own, cuDNN's recurrent networks for one: which launches each launch waits
// for. Holds where every such stream first waits for the op's and the op's
// stream at last waits for all that they did. As a wait is called after its
// event was recorded, the order of the calls is one that keeps all of that.
//
// Nothing is known of what the other streams did before the op, nor of who
// waits for its events after it; whose library shares them with other work must
// not be trusted with this. Refusals are literals, null where there is none.
// Thread-compatible.
class ForkedStreams {
 public:
  explicit ForkedStreams(CUstream own);

  // The next launch. `behind` becomes Launch::behind.
  const char* Launch(CUstream stream,
                     std::optional<std::vector<uint32_t>>& behind);
  const char* Record(CUstream stream, CUevent event);
  const char* Wait(CUstream stream, CUevent event);
  // All is joined.
  const char* End() const;

 private:
  // How many launches of each stream are over; a vector clock. Streams that
  // came later are missing: none of theirs is.
  using Clock = std::vector<uint32_t>;
  struct Made {
    uint32_t index;  // among all launches
    Clock over;      // where it may begin
  };
  struct Stream {
    CUstream handle;
    Clock over;  // where its next launch may begin; its own among them
    Clock last;  // where its last launch could
    std::vector<Made> launches;
  };

  static uint32_t At(const Clock& clock, size_t stream) {
    return stream < clock.size() ? clock[stream] : 0;
  }
  // Its number; none for one that has not waited for the op.
  std::optional<size_t> Find(CUstream handle) const;
  // The launches that a launch of that stream must wait for, without those that
  // others of them wait for.
  std::vector<uint32_t> Newest(size_t stream) const;

  std::vector<Stream> streams_;  // the op's own first
  std::unordered_map<CUevent, Clock> events_;
  uint32_t launches_ = 0;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_FORKED_STREAMS_H_
