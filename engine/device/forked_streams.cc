#include "engine/device/forked_streams.h"

#include <algorithm>

namespace reprise::device {
namespace {

constexpr const char* kAnotherStream = "work on another stream";

}  // namespace

ForkedStreams::ForkedStreams(CUstream own) {
  streams_.push_back({.handle = own, .over = {0}, .last = {}, .launches = {}});
}

std::optional<size_t> ForkedStreams::Find(CUstream handle) const {
  for (size_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].handle == handle) return s;
  }
  return std::nullopt;
}

std::vector<uint32_t> ForkedStreams::Newest(size_t stream) const {
  const Stream& its = streams_[stream];
  std::vector<const Made*> candidates;
  std::vector<size_t> owners;
  for (size_t s = 0; s < streams_.size(); ++s) {
    const uint32_t over = At(its.over, s);
    // What its last launch waited for need not be waited for again.
    if (over == 0 || (s != stream && over == At(its.last, s))) continue;
    candidates.push_back(&streams_[s].launches[over - 1]);
    owners.push_back(s);
  }
  std::vector<uint32_t> newest;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool implied = std::any_of(
        candidates.begin(), candidates.end(), [&](const Made* other) {
          return other != candidates[i] &&
                 At(other->over, owners[i]) >= At(its.over, owners[i]);
        });
    if (!implied) newest.push_back(candidates[i]->index);
  }
  return newest;
}

const char* ForkedStreams::Launch(
    CUstream stream, std::optional<std::vector<uint32_t>>& behind) {
  const auto found = Find(stream);
  if (!found.has_value()) return kAnotherStream;
  Stream& its = streams_[*found];
  const uint32_t index = launches_++;
  // The first launch of all waits for whatever was before the op.
  if (index > 0 && streams_.size() > 1) {
    behind = Newest(*found);
    if (behind->empty()) behind->push_back(0);  // and so does this, behind it
    for (uint32_t& earlier : *behind) earlier = index - earlier;
  }
  its.launches.push_back({index, its.over});
  its.last = its.over;
  ++its.over[*found];
  return nullptr;
}

const char* ForkedStreams::Record(CUstream stream, CUevent event) {
  const auto found = Find(stream);
  if (!found.has_value()) return kAnotherStream;
  events_[event] = streams_[*found].over;
  return nullptr;
}

const char* ForkedStreams::Wait(CUstream stream, CUevent event) {
  const auto recorded = events_.find(event);
  if (recorded == events_.end()) {
    return "a wait for an event from before the op";
  }
  auto found = Find(stream);
  if (!found.has_value()) {
    found = streams_.size();
    streams_.push_back(
        {.handle = stream, .over = {}, .last = {}, .launches = {}});
  }
  Clock& over = streams_[*found].over;
  over.resize(std::max({over.size(), *found + 1, recorded->second.size()}), 0);
  for (size_t s = 0; s < recorded->second.size(); ++s) {
    over[s] = std::max(over[s], recorded->second[s]);
  }
  return nullptr;
}

const char* ForkedStreams::End() const {
  for (size_t s = 1; s < streams_.size(); ++s) {
    if (At(streams_.front().over, s) < streams_[s].launches.size()) {
      return "work on another stream that nothing waits for";
    }
  }
  return nullptr;
}

}  // namespace reprise::device
