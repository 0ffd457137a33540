#include "engine/device/clear_stack.h"

#include <array>

namespace reprise::device {

[[gnu::noinline]] void ClearStack() {
  std::array<char, kClearedStackBytes> below{};
  // It is used, as far as a compiler knows.
  asm volatile("" : : "r"(below.data()) : "memory");
}

}  // namespace reprise::device
