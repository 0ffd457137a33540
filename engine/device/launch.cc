#include "engine/device/launch.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "engine/device/launch_attribute.h"

namespace reprise::device {
namespace {

constexpr size_t kLongestName = 120;

std::string ReadableName(const std::string& mangled) {
  int failure = 0;
  char* demangled =
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &failure);
  std::string name = failure == 0 ? demangled : mangled;
  std::free(demangled);
  if (name.size() > kLongestName) {
    name.resize(kLongestName);
    name += "...";
  }
  return name;
}

std::string ToString(const Dim3& dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " +
         std::to_string(dim.z) + ")";
}

bool SameParams(const Launch& a, const Launch& b) {
  if (a.params == b.params) return true;
  return a.params != nullptr && b.params != nullptr && *a.params == *b.params;
}

}  // namespace

bool SameShape(const Launch& a, const Launch& b) {
  if (a.kind != b.kind || a.image.size() != b.image.size() ||
      a.behind != b.behind) {
    return false;
  }
  if (a.kind != Launch::Kind::kKernel) {
    return a.value == b.value && a.element_bytes == b.element_bytes &&
           a.width == b.width && a.height == b.height &&
           a.pitch_bytes == b.pitch_bytes && a.graph == b.graph;
  }
  return a.packed == b.packed && a.function == b.function && a.grid == b.grid &&
         a.block == b.block && a.shared_bytes == b.shared_bytes &&
         a.programmatic == b.programmatic &&
         std::equal(a.attributes.begin(), a.attributes.end(),
                    b.attributes.begin(), b.attributes.end(), SameAttribute) &&
         SameParams(a, b);
}

std::string Describe(const Launch& launch) {
  switch (launch.kind) {
    case Launch::Kind::kKernel: {
      std::string line = "kernel ";
      line += launch.name != nullptr ? ReadableName(*launch.name) : "?";
      line +=
          " grid " + ToString(launch.grid) + " block " + ToString(launch.block);
      if (launch.shared_bytes != 0) {
        line += " shared " + std::to_string(launch.shared_bytes) + " bytes";
      }
      return line;
    }
    case Launch::Kind::kMemset: {
      std::string line = "memset of " + std::to_string(launch.width) +
                         " elements of " +
                         std::to_string(launch.element_bytes) + " bytes";
      if (launch.height != 1) {
        line += " in " + std::to_string(launch.height) + " rows";
      }
      return line + " to " + std::to_string(launch.value);
    }
    case Launch::Kind::kMemcpy:
      return "memcpy of " + std::to_string(launch.width) + " bytes";
    case Launch::Kind::kWaitEvent:
      return "wait for an event";
    case Launch::Kind::kRecordEvent:
      return "recording of an event";
    case Launch::Kind::kGraph:
      return "captured work";
  }
  return "?";
}

}  // namespace reprise::device
