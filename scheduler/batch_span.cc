#include "scheduler/batch_span.h"

#include <algorithm>
#include <cstdint>

#include "engine/batch/kernel_code.h"

namespace reprise::scheduler {
namespace {

constexpr size_t kMostCharacters = 48;

std::string_view NameOf(const engine::Node& node) {
  switch (node.kind) {
    case engine::Node::Kind::kKernel:
      return node.kernel->name();
    case engine::Node::Kind::kCopy:
      return "copy";
    case engine::Node::Kind::kFill:
      return "fill";
    case engine::Node::Kind::kCapture:
      return "captured work";
    case engine::Node::Kind::kWait:
    case engine::Node::Kind::kRecord:
      return "event";
  }
  return "?";
}

}  // namespace

cache::Signature SignatureOf(const std::vector<engine::Node>& nodes) {
  return cache::HashWords(
      {reinterpret_cast<const uint64_t*>(nodes.data()),
       nodes.size() * sizeof(engine::Node) / sizeof(uint64_t)});
}

std::string LabelOf(const std::vector<engine::Node>& nodes,
                    std::string_view name) {
  if (!name.empty()) return std::string(name);
  std::vector<std::string_view> told;
  std::string label;
  for (const engine::Node& node : nodes) {
    const std::string_view next = NameOf(node);
    if (std::ranges::find(told, next) != told.end()) continue;
    if (!label.empty() && label.size() + next.size() > kMostCharacters) {
      return label + ", ...";
    }
    told.push_back(next);
    label.append(label.empty() ? "" : ", ").append(next);
  }
  return label;
}

void BatchSpan::Begin(const Track& track, Doing doing,
                      const std::vector<engine::Node>& nodes,
                      std::string_view name) {
  label_ = LabelOf(nodes, name);
  span_.Begin(track, doing, SignatureOf(nodes),
              static_cast<uint32_t>(nodes.size()), label_);
}

}  // namespace reprise::scheduler
