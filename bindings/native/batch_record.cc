#include "bindings/native/batch_record.h"

#include "bindings/native/kernel_code.h"

namespace reprise::native {

uint32_t BatchRecord::AddCopy(void* to, const void* from, uint64_t bytes) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::kCopy;
  node.width = bytes;
  std::byte* image = AddImage(node, 16);
  std::memcpy(image, &to, sizeof to);
  std::memcpy(image + 8, &from, sizeof from);
  AddAccess(to, bytes, true, 0);
  AddAccess(from, bytes, false, 1);
  if (bytes == 0) Refuse("copies nothing");
  return EndLaunch();
}

uint32_t BatchRecord::AddFill(void* to, uint64_t count, uint32_t element_bytes,
                              uint32_t value) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::kFill;
  node.width = count;
  node.element_bytes = element_bytes;
  node.value = value;
  std::byte* image = AddImage(node, 8);
  std::memcpy(image, &to, sizeof to);
  AddAccess(to, count * element_bytes, true, 0);
  if (count == 0) Refuse("fills nothing");
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

void BatchRecord::RefuseNull(size_t argument) {
  Refuse("has a null pointer as argument " + std::to_string(argument));
}

}  // namespace reprise::native
