#include "engine/batch/batch_record.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "cache/signature.h"
#include "engine/batch/batch_event.h"
#include "engine/batch/elements.h"
#include "engine/batch/kernel_code.h"

namespace reprise::engine {

using base::Code;
using base::Result;

uint32_t BatchRecord::AddCopy(void* to, const void* from, uint64_t count,
                              uint32_t element_bytes) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::kCopy;
  node.width = count * element_bytes;  // AddAccess refuses what is too much
  std::byte* image = AddImage(node, 16);
  std::memcpy(image, &to, sizeof to);
  std::memcpy(image + 8, &from, sizeof from);
  AddAccess(to, count, element_bytes, true, 0);
  AddAccess(from, count, element_bytes, false, 1);
  if (count == 0) Refuse("copies nothing: leave it out");
  const auto begin = reinterpret_cast<uintptr_t>(to);
  const auto source = reinterpret_cast<uintptr_t>(from);
  const uint64_t apart = begin > source ? begin - source : source - begin;
  if (apart < node.width) {
    Refuse("copies " + ElementsOf(count, element_bytes) + " to memory that " +
           (apart == 0 ? "is"
                       : "begins " + std::to_string(apart) + " bytes from") +
           " their own: copy by way of another Buffer");
  }
  return EndLaunch();
}

Result<BatchRecord::Pattern> BatchRecord::PatternOf(const ParamType& element,
                                                    const void* value) {
  Pattern pattern{.bytes = std::min<uint32_t>(element.size_bytes, 4)};
  std::memcpy(&pattern.bits, value, pattern.bytes);
  if (element.size_bytes == 8) {
    uint64_t bits = 0;
    std::memcpy(&bits, value, sizeof bits);
    if (bits >> 32 != pattern.bits) {
      std::array<char, 19> hex{};
      std::snprintf(hex.data(), hex.size(), "0x%016" PRIx64, bits);
      return base::Fail(
          Code::kInvalidArgument,
          "fills elements of type " + element.Spelled() + " with " +
              hex.data() +
              ", whose halves differ: a device repeats 1, 2 or 4 bytes, so "
              "that "
              "of values of 8 bytes it takes those of two equal halves, as 0");
    }
  }
  return pattern;
}

uint32_t BatchRecord::AddFill(void* to, uint64_t count,
                              const ParamType& element, const void* value) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::kFill;
  fills_.push_back({EndLaunch(), element});
  const auto pattern = PatternOf(element, value);
  const uint32_t bits = pattern ? pattern->bits : 0;
  node.element_bytes = std::min<uint32_t>(element.size_bytes, 4);
  node.width = count * (element.size_bytes / node.element_bytes);
  std::byte* image = AddImage(node, kFillValue + sizeof bits);
  std::memcpy(image, &to, sizeof to);
  std::memcpy(image + kFillValue, &bits, sizeof bits);
  AddAccess(to, count, element.size_bytes, true, 0);
  if (count == 0) Refuse("fills nothing: leave it out");
  if (!pattern) Refuse(pattern.error().message());
  return EndLaunch();
}

uint32_t BatchRecord::AddEvent(Node::Kind kind, std::vector<EventUse>& uses,
                               std::shared_ptr<BatchEvent> event) {
  Node& node = nodes_.emplace_back();
  node.kind = kind;
  node.ordered = 1;
  const BatchEvent* const address = event.get();
  std::memcpy(AddImage(node, sizeof address), &address, sizeof address);
  uses.push_back({std::move(event), EndLaunch()});
  return EndLaunch();
}

uint32_t BatchRecord::AddWait(std::shared_ptr<BatchEvent> event) {
  return AddEvent(Node::Kind::kWait, waits_, std::move(event));
}

uint32_t BatchRecord::AddPoint(std::shared_ptr<BatchEvent> event) {
  return AddEvent(Node::Kind::kRecord, points_, std::move(event));
}

uint32_t BatchRecord::AddCapture(const CaptureKey* key, CaptureFunction work) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::kCapture;
  node.ordered = 1;
  if (key != nullptr) {
    const cache::Signature hash = cache::HashWords(key->words());
    node.width = hash.lo;
    node.key = static_cast<uint32_t>(hash.hi);
    node.element_bytes = static_cast<uint32_t>(hash.hi >> 32);
  } else {
    has_unknown_work_ = true;
  }
  const uint64_t number = captures_.size();
  std::memcpy(AddImage(node, sizeof number), &number, sizeof number);
  captures_.push_back(std::move(work));
  return EndLaunch();
}

void BatchRecord::Refuse(std::string_view what) {
  if (mistake_.has_value()) return;
  std::string sentence = "launch " + std::to_string(nodes_.size() - 1) + " (";
  const Node& node = nodes_.back();
  switch (node.kind) {
    case Node::Kind::kKernel:
      sentence += "kernel '" + node.kernel->name() + "'";
      break;
    case Node::Kind::kCopy:
      sentence += "copy";
      break;
    case Node::Kind::kFill:
      sentence += "fill";
      break;
    case Node::Kind::kWait:
      sentence += "wait";
      break;
    case Node::Kind::kRecord:
      sentence += "record";
      break;
    case Node::Kind::kCapture:
      sentence += "capture";
      break;
  }
  mistake_ = sentence + ") " + std::string(what);
}

void BatchRecord::RefuseValue(size_t argument, long double value,
                              bool is_integer, const ParamType& type) {
  // A long double holds every integer of 64 bits, and 20 digits write it.
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*Lg", is_integer ? 20 : 9, value);
  Refuse("has " + std::string(text.data()) + " as argument " +
         std::to_string(argument) + ", which the parameter's type, " +
         type.Spelled() + ", cannot hold");
}

void BatchRecord::RefuseCounts(const LaunchConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 31;
  struct Shape {
    const char* name;
    const LaunchDim3& dim;
    int64_t least;
  };
  const Shape shapes[] = {{"grid", config.grid, 1},
                          {"block", config.block, 1},
                          {"cluster", config.cluster, 0}};
  for (const Shape& shape : shapes) {
    const int64_t counts[] = {shape.dim.x.given(), shape.dim.y.given(),
                              shape.dim.z.given()};
    for (int d = 0; d < 3; ++d) {
      if (counts[d] >= shape.least && counts[d] <= kMost) continue;
      if (counts[d] == 0) {
        return Refuse("has a " + std::string(shape.name) +
                      " of 0 in direction " + std::to_string(d) +
                      ": give 1 or more, or leave the launch out");
      }
      return Refuse("has a " + std::string(shape.name) + " of " +
                    std::to_string(counts[d]) + " in direction " +
                    std::to_string(d) + ", no device takes " +
                    (counts[d] < 0 ? "less than 1" : "so many"));
    }
  }
  const int64_t bytes = config.shared_bytes.given();
  if (bytes < 0 || bytes >= kMost) {
    Refuse("has " + std::to_string(bytes) +
           " bytes of dynamic shared memory, no device takes " +
           (bytes < 0 ? "less than 0" : "so many"));
  }
}

void BatchRecord::CheckCluster(const Node& node) {
  const uint32_t grid[] = {node.grid.x, node.grid.y, node.grid.z};
  const uint32_t cluster[] = {node.cluster.x, node.cluster.y, node.cluster.z};
  for (int d = 0; d < 3; ++d) {
    if (cluster[d] != 0 && grid[d] % cluster[d] == 0) continue;
    Refuse("has a cluster of " + std::to_string(cluster[d]) +
           " blocks in direction " + std::to_string(d) +
           ", which does not divide the grid of " + std::to_string(grid[d]));
    return;
  }
}

void BatchRecord::RefuseCount(uint64_t count, uint64_t element_bytes,
                              size_t argument) {
  Refuse("has " + ElementsOf(count, element_bytes) + " as argument " +
         std::to_string(argument) + ", which go beyond the last address");
}

void BatchRecord::RefuseNull(size_t argument) {
  Refuse("has a null pointer as argument " + std::to_string(argument) +
         ": give memory of a Buffer that was allocated and not moved from");
}

}  // namespace reprise::engine
