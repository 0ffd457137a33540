#include "engine/batch/dependencies.h"

#include <cstdint>

namespace reprise::engine {
namespace {

bool Conflict(const Node& a, const Node& b,
              const std::vector<Access>& accesses) {
  for (uint32_t i = 0; i < a.accesses; ++i) {
    for (uint32_t j = 0; j < b.accesses; ++j) {
      if (accesses[a.access_begin + i].ConflictsWith(
              accesses[b.access_begin + j])) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

device::Dependencies DependenciesOf(const std::vector<Node>& nodes,
                                    const std::vector<Access>& accesses) {
  device::Dependencies dependencies(nodes.size());
  // Since the last ordered launch, `begin`: reached[i] says of each later
  // launch that i waits for it.
  size_t begin = 0;
  std::vector<std::vector<bool>> reached;
  std::vector<bool> has_successor;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<uint32_t>& before = dependencies[i];
    if (nodes[i].ordered != 0) {
      for (size_t j = begin; j < i; ++j) {
        if (!has_successor[j - begin]) {
          before.push_back(static_cast<uint32_t>(j));
        }
      }
      begin = i;
      reached.assign(1, {});
      has_successor.assign(1, false);
      continue;
    }
    std::vector<bool> reach(i - begin, false);
    for (size_t j = i; j-- > begin;) {
      const bool behind_ordered = nodes[j].ordered != 0;
      if (reach[j - begin] ||
          !(behind_ordered || Conflict(nodes[i], nodes[j], accesses))) {
        continue;
      }
      before.push_back(static_cast<uint32_t>(j));
      has_successor[j - begin] = true;
      reach[j - begin] = true;
      for (size_t k = 0; k < reached[j - begin].size(); ++k) {
        if (reached[j - begin][k]) reach[k] = true;
      }
    }
    reached.push_back(std::move(reach));
    has_successor.push_back(false);
  }
  return dependencies;
}

std::optional<Unordered> FirstUnordered(
    const device::Dependencies& dependencies, const std::vector<Node>& nodes,
    const std::vector<Access>& accesses) {
  // waits_for[i][j]: i waits for j, by others or by itself.
  std::vector<std::vector<bool>> waits_for;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    std::vector<bool>& waits = waits_for.emplace_back(i, false);
    for (const uint32_t before : dependencies[i]) {
      waits[before] = true;
      for (uint32_t j = 0; j < before; ++j) {
        if (waits_for[before][j]) waits[j] = true;
      }
    }
    for (uint32_t j = 0; j < i; ++j) {
      if (!waits[j] && Conflict(nodes[i], nodes[j], accesses)) {
        return Unordered{.earlier = j, .later = i};
      }
    }
  }
  return std::nullopt;
}

}  // namespace reprise::engine
