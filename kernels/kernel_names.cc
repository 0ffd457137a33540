#include "kernels/kernel_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>

namespace reprise::kernels {
namespace {

constexpr size_t kMostNamed = 8;

bool IsOfIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The source without comments and texts in quotes.
std::string CodeOf(std::string_view source) {
  std::string code;
  while (!source.empty()) {
    size_t taken = 1;
    if (source.starts_with("//")) {
      taken = source.find('\n');
    } else if (source.starts_with("/*")) {
      taken = source.find("*/", 2);
      if (taken != std::string_view::npos) taken += 2;
    } else if (source.front() == '"') {
      while (taken < source.size() && source[taken] != '"') {
        taken += source[taken] == '\\' ? 2 : 1;
      }
      ++taken;
    } else {
      code += source.front();
      source.remove_prefix(1);
      continue;
    }
    code += ' ';
    source.remove_prefix(std::min(taken, source.size()));
  }
  return code;
}

// The name of the function whose declaration goes on with `text`: what stands
// before the first parenthesis that is not of an attribute ("__launch_bounds__(
// 128)").
std::string_view NameOfFunction(std::string_view text) {
  for (size_t open = text.find('('); open != std::string_view::npos;
       open = text.find('(', open + 1)) {
    size_t end = open;
    while (end > 0 && text[end - 1] == ' ') --end;
    size_t begin = end;
    while (begin > 0 && IsOfIdentifier(text[begin - 1])) --begin;
    const std::string_view name = text.substr(begin, end - begin);
    if (!name.empty() && !name.starts_with("__")) return name;
  }
  return {};
}

// "space::scale" of "space::scale<float>(float*)" and of
// "(void(*)(float*))space::scale".
std::string_view WithoutTypes(std::string_view name) {
  if (name.starts_with('(')) name.remove_prefix(name.rfind(')') + 1);
  return name.substr(0, name.find_first_of("<("));
}

std::string_view WithoutNamespace(std::string_view name) {
  const size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

// How many characters have to be changed, put in or left out (Levenshtein).
size_t EditsBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> edits(b.size() + 1);
  std::iota(edits.begin(), edits.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(edits[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = edits[j + 1];
      edits[j + 1] = std::min({changed, diagonal + 1, edits[j] + 1});
    }
  }
  return edits.back();
}

size_t DistanceBetween(std::string_view wanted, std::string_view name) {
  const std::string_view a = WithoutTypes(wanted);
  const std::string_view b = WithoutTypes(name);
  return std::min(EditsBetween(a, b),
                  EditsBetween(WithoutNamespace(a), WithoutNamespace(b)));
}

void SortClosestFirst(std::string_view wanted,
                      std::vector<std::string>& names) {
  std::ranges::stable_sort(names, {}, [wanted](const std::string& name) {
    return DistanceBetween(wanted, name);
  });
}

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    list.append(i == 0 ? "" : ", ").append(names[i]);
  }
  if (names.size() > kMostNamed) {
    list += " and " + std::to_string(names.size() - kMostNamed) + " more";
  }
  return list;
}

}  // namespace

std::string Demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  if (text == nullptr) return name;
  // Of a template's kernel it begins with the type of the result.
  constexpr std::string_view kResult = "void ";
  const std::string_view demangled = text.get();
  return std::string(demangled.starts_with(kResult)
                         ? demangled.substr(kResult.size())
                         : demangled);
}

bool IsCalled(std::string_view kernel, std::string_view name) {
  return kernel.starts_with(name) &&
         kernel.substr(name.size()).starts_with('(');
}

std::vector<std::string> KernelsOfPtx(std::string_view ptx) {
  constexpr std::string_view kEntry = ".entry ";
  std::vector<std::string> kernels;
  for (size_t at = ptx.find(kEntry); at != std::string_view::npos;
       at = ptx.find(kEntry, at)) {
    at += kEntry.size();
    const size_t end = ptx.find_first_of("( \n", at);
    kernels.push_back(Demangle(std::string(ptx.substr(at, end - at)).c_str()));
  }
  return kernels;
}

std::vector<std::string> KernelTemplatesOf(std::string_view source) {
  constexpr std::string_view kGlobal = "__global__";
  const std::string code = CodeOf(source);
  const std::string_view text = code;
  std::vector<std::string> names;
  for (size_t at = text.find(kGlobal); at != std::string_view::npos;
       at = text.find(kGlobal, at + kGlobal.size())) {
    const size_t before = text.find_last_of(";{}", at);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view head = text.substr(begin, at - begin);
    const size_t word = head.find("template");
    if (word == std::string_view::npos) continue;
    // "template <>" and "template __global__": a specialisation, an instance.
    const size_t open = head.find('<', word);
    if (open == std::string_view::npos ||
        head.find_first_not_of(" \t\n", open + 1) == head.find('>', open)) {
      continue;
    }
    const std::string name(NameOfFunction(text.substr(at + kGlobal.size())));
    if (!name.empty() && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string WhyNoKernel(std::string_view wanted,
                        std::vector<std::string> kernels,
                        std::vector<std::string> templates) {
  const std::string name(wanted);
  SortClosestFirst(wanted, kernels);
  SortClosestFirst(wanted, templates);
  const auto called = std::ranges::count_if(
      kernels, [&](const std::string& k) { return IsCalled(k, wanted); });
  if (called > 1) {
    return "has " + std::to_string(called) + " kernels '" + name + "' (" +
           Listed(kernels) +
           "): declare one extern \"C\", or name it with its type, as in "
           "(void(*)(float*))" +
           name;
  }
  std::string why = "has no kernel '" + name + "': ";
  if (kernels.empty() && templates.empty()) {
    return why + "it has no kernel at all (__global__ void " +
           std::string(WithoutNamespace(WithoutTypes(wanted))) + "(...))";
  }
  why += "it has " + Listed(kernels);
  if (templates.empty()) return why;
  return why + (kernels.empty() ? "" : ", and ") +
         (templates.size() == 1 ? "the template " : "the templates ") +
         Listed(templates) + ", named with arguments as in " +
         templates.front() + "<float>";
}

}  // namespace reprise::kernels
