// What a batch holds: launches as plain bytes, cheap to write and to compare.

#ifndef REPRISE_ENGINE_BATCH_BATCH_RECORD_H_
#define REPRISE_ENGINE_BATCH_BATCH_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/export.h"
#include "engine/base/status.h"
#include "engine/batch/capture.h"
#include "engine/batch/launch_config.h"
#include "engine/batch/node.h"
#include "engine/batch/param_type.h"

namespace reprise::engine {

class BatchEvent;

// Filled by one thread; kept by its stream for the next batch, so that its
// vectors need not grow again. A mistake is kept until it is asked for.
class BatchRecord {
 public:
  // Where a fill's image has its value.
  static constexpr uint32_t kFillValue = 8;

  // Where the arguments go: `image_bytes` of uninitialised memory, until the
  // next Add.
  std::byte* AddKernel(KernelCode* kernel, const LaunchConfig& config,
                       uint32_t image_bytes) {
    Node& node = nodes_.emplace_back();
    node.kernel = kernel;
    node.grid = config.grid.nearest();
    node.block = config.block.nearest();
    node.shared_bytes = config.shared_bytes;
    node.cluster = config.cluster.nearest();
    node.priority = config.priority;
    node.programmatic = config.programmatic ? 1 : 0;
    // Two of them side by side could wait for each other's blocks for ever.
    node.ordered = node.cooperative = config.cooperative ? 1 : 0;
    if (!config.InRange()) [[unlikely]]
      RefuseCounts(config);
    if (node.clustered()) [[unlikely]]
      CheckCluster(node);
    return AddImage(node, image_bytes);
  }
  REPRISE_EXPORT uint32_t AddCopy(void* to, const void* from, uint64_t count,
                                  uint32_t element_bytes);
  // The image is the destination and, in its low bytes, the value. Elements of
  // 8 bytes are two of 4, which must be equal.
  REPRISE_EXPORT uint32_t AddFill(void* to, uint64_t count,
                                  const ParamType& element, const void* value);

  // The image is the address of the event, which the record keeps alive.
  uint32_t AddWait(std::shared_ptr<BatchEvent> event);
  uint32_t AddPoint(std::shared_ptr<BatchEvent> event);
  // The image is the number of the work. Without a key nobody knows what it
  // will do another time.
  REPRISE_EXPORT uint32_t AddCapture(const CaptureKey* key,
                                     CaptureFunction work);

  void AddAccess(const void* data, uint64_t count, uint32_t element_bytes,
                 bool written, size_t argument) {
    if (data == nullptr) [[unlikely]]
      RefuseNull(argument);
    const auto begin = reinterpret_cast<uint64_t>(data);
    uint64_t bytes = 0;
    uint64_t end = 0;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) ||
        __builtin_add_overflow(begin, bytes, &end)) [[unlikely]] {
      RefuseCount(count, element_bytes, argument);
    }
    accesses_.push_back(
        {begin, bytes, written ? 1u : 0u, static_cast<uint32_t>(argument)});
    ++nodes_.back().accesses;
  }
  void AddPointer(const void* data, size_t argument) {
    if (data == nullptr) [[unlikely]]
      RefuseNull(argument);
    nodes_.back().ordered = 1;
  }
  // The last launch waits for all before it, and all behind it for it.
  void KeepPlace() { nodes_.back().ordered = 1; }
  uint32_t EndLaunch() { return static_cast<uint32_t>(nodes_.size() - 1); }

  // The last launch is wrong: it `what`. The first mistake is kept.
  REPRISE_EXPORT void Refuse(std::string_view what);
  // Its argument is a number that no value of the parameter's type is.
  REPRISE_EXPORT void RefuseValue(size_t argument, long double value,
                                  bool is_integer, const ParamType& type);

  // What the program calls the batch, for people.
  void SetName(std::string_view name) { name_ = name; }
  const std::string& name() const { return name_; }

  void Clear() {
    name_.clear();
    nodes_.clear();
    accesses_.clear();
    image_.clear();
    waits_.clear();
    points_.clear();
    captures_.clear();
    fills_.clear();
    has_unknown_work_ = false;
    mistake_.reset();
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<std::byte>& image() const { return image_; }
  // Events that it waits for, and those that it records.
  struct EventUse {
    std::shared_ptr<BatchEvent> event;
    uint32_t node;
  };
  const std::vector<EventUse>& waits() const { return waits_; }
  const std::vector<EventUse>& points() const { return points_; }
  const std::vector<CaptureFunction>& captures() const { return captures_; }
  // What the elements of fills are, in the order of the nodes.
  struct FillOf {
    uint32_t node;
    ParamType element;
  };
  const std::vector<FillOf>& fills() const { return fills_; }
  // It must not be replayed.
  bool has_unknown_work() const { return has_unknown_work_; }
  // What a fill with that value repeats; kInvalidArgument where the two halves
  // of one of 8 bytes differ.
  struct Pattern {
    uint32_t bits = 0;
    uint32_t bytes = 0;
  };
  static base::Result<Pattern> PatternOf(const ParamType& element,
                                         const void* value);
  // Of a fill, by its image.
  static uint32_t ValueIn(const std::byte* image) {
    uint32_t value = 0;
    std::memcpy(&value, image + kFillValue, sizeof value);
    return value;
  }
  // Of a capture, by its image.
  static size_t CaptureIn(const std::byte* image) {
    uint64_t number = 0;
    std::memcpy(&number, image, sizeof number);
    return number;
  }
  const std::optional<std::string>& mistake() const { return mistake_; }

  bool SameNodes(const std::vector<Node>& nodes) const {
    return nodes_.size() == nodes.size() &&
           std::memcmp(nodes_.data(), nodes.data(),
                       nodes.size() * sizeof(Node)) == 0;
  }

 private:
  // Arguments begin at multiples of this, so that any may be read in place.
  static constexpr size_t kImageAlignment = 16;

  std::byte* AddImage(Node& node, uint32_t bytes) {
    const size_t begin = image_.size();
    node.image_begin = static_cast<uint32_t>(begin);
    node.image_bytes = bytes;
    node.access_begin = static_cast<uint32_t>(accesses_.size());
    image_.resize(begin + (bytes + kImageAlignment - 1) / kImageAlignment *
                              kImageAlignment);
    return image_.data() + begin;
  }
  uint32_t AddEvent(Node::Kind kind, std::vector<EventUse>& uses,
                    std::shared_ptr<BatchEvent> event);
  REPRISE_EXPORT void RefuseNull(size_t argument);
  REPRISE_EXPORT void RefuseCount(uint64_t count, uint64_t element_bytes,
                                  size_t argument);
  REPRISE_EXPORT void RefuseCounts(const LaunchConfig& config);
  REPRISE_EXPORT void CheckCluster(const Node& node);

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Access> accesses_;
  std::vector<std::byte> image_;
  std::vector<EventUse> waits_;
  std::vector<EventUse> points_;
  std::vector<CaptureFunction> captures_;
  std::vector<FillOf> fills_;
  bool has_unknown_work_ = false;
  std::optional<std::string> mistake_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_BATCH_RECORD_H_
