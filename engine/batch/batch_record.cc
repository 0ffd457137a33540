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
  if (count == 0) Refuse("copies nothing");
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
  if (count == 0) Refuse("fills nothing");
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

void BatchRecord::CheckCluster(const LaunchConfig& config) {
  const uint32_t grid[] = {config.grid.x, config.grid.y, config.grid.z};
  const uint32_t cluster[] = {config.cluster.x, config.cluster.y,
                              config.cluster.z};
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
  Refuse("has a null pointer as argument " + std::to_string(argument));
}

}  // namespace reprise::engine
