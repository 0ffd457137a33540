// Lists of names that a source file holds.

#ifndef REPRISE_BINDINGS_TORCH_BASE_NAME_LIST_H_
#define REPRISE_BINDINGS_TORCH_BASE_NAME_LIST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace reprise::bindings {

template <size_t N>
bool Contains(const std::array<std::string_view, N>& list,
              std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_NAME_LIST_H_
