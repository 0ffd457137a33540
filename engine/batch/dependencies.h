// Which launches of a batch wait for which.

#ifndef REPRISE_ENGINE_BATCH_DEPENDENCIES_H_
#define REPRISE_ENGINE_BATCH_DEPENDENCIES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/batch/node.h"
#include "engine/device/launch_graph.h"

namespace reprise::engine {

// A launch of which all is known waits for the latest launches that read what
// it writes or write what it reads or writes. One that is `ordered` waits for
// all before it, and all behind it wait for it. No edge that others imply. Cost
// grows with the square of the launches between two ordered ones; a batch of
// ordered launches is a straight line at a cost of its length.
device::Dependencies DependenciesOf(const std::vector<Node>& nodes,
                                    const std::vector<Access>& accesses);

// A launch, and a later one that conflicts with it and does not wait for it by
// `dependencies`, which may be of other memory. Cost grows with the square of
// the launches.
struct Unordered {
  uint32_t earlier;
  uint32_t later;
};
std::optional<Unordered> FirstUnordered(
    const device::Dependencies& dependencies, const std::vector<Node>& nodes,
    const std::vector<Access>& accesses);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_DEPENDENCIES_H_
