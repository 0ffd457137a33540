// Names of kernels: as people write them, and what to say of a wrong one.

#ifndef REPRISE_KERNELS_KERNEL_NAMES_H_
#define REPRISE_KERNELS_KERNEL_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

namespace reprise::kernels {

// "_ZN5space5scaleEPf" is "space::scale(float*)"; what is no C++ name is
// itself.
std::string Demangle(const char* name);

// `kernel`, as Demangle gives it, is `name` and a list of parameters.
bool IsCalled(std::string_view kernel, std::string_view name);

// The kernels of a PTX text, as Demangle gives them, in its order.
std::vector<std::string> KernelsOfPtx(std::string_view ptx);

// The names of the templates of kernels in a CUDA source, each once, without
// their namespaces. Reads the text alone: macros may hide some.
std::vector<std::string> KernelTemplatesOf(std::string_view source);

// Why `wanted` names no kernel, and what to write in its place: the end of a
// sentence that begins with what should have it. `kernels` are those that there
// are; `templates` those of KernelTemplatesOf. Closest names come first.
std::string WhyNoKernel(std::string_view wanted,
                        std::vector<std::string> kernels,
                        std::vector<std::string> templates);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_KERNEL_NAMES_H_
