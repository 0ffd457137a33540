#include "kernels/include_macros.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace reprise::kernels {
namespace {

constexpr int kDeepest = 16;
constexpr size_t kMostWays = 256;

bool BeginsIdentifier(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '$';
}
bool ContinuesIdentifier(char c) {
  return BeginsIdentifier(c) ||
         std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// A compiler may define these by itself.
bool MayBePredefined(std::string_view identifier) {
  return identifier.starts_with("__") || identifier == "linux" ||
         identifier == "unix";
}

// "<name>" or "\"name\"".
bool IsHeader(std::string_view text) {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') ||
                             (text.front() == '"' && text.back() == '"'));
}

void AddOnce(std::string text, std::vector<std::string>& texts) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
    texts.push_back(std::move(text));
  }
}

}  // namespace

void IncludeMacros::Add(const Definition& definition) {
  std::vector<const Definition*>& known = macros_[definition.macro];
  if (std::none_of(known.begin(), known.end(), [&](const Definition* other) {
        return *other == definition;
      })) {
    known.push_back(&definition);
  }
}

std::optional<std::vector<std::string>> IncludeMacros::Expand(
    std::string_view computed) const {
  Texts expanded;
  if (!ExpandText(computed, 0, expanded)) return std::nullopt;
  Texts names;
  for (std::string& text : expanded) {
    if (!IsHeader(text)) continue;
    // Blanks between tokens may or may not be part of the name.
    std::string dense = text.substr(1, text.size() - 2);
    AddOnce(dense, names);
    std::erase_if(dense, [](char c) { return c == ' ' || c == '\t'; });
    AddOnce(std::move(dense), names);
  }
  if (names.empty()) return std::nullopt;
  return names;
}

bool IncludeMacros::ExpandText(std::string_view text, int depth,
                               Texts& expanded) const {
  if (depth > kDeepest) return false;
  expanded.assign(1, "");
  bool quoted = false;
  while (!text.empty()) {
    Texts next;
    size_t end = 1;
    if (!quoted && BeginsIdentifier(text.front())) {
      while (end < text.size() && ContinuesIdentifier(text[end])) ++end;
      if (!ExpandIdentifier(text.substr(0, end), depth, next)) return false;
    } else {
      // Digits too, with the letters behind them: they are no identifiers.
      if (text.front() == '"') quoted = !quoted;
      if (std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
        while (end < text.size() && ContinuesIdentifier(text[end])) ++end;
      }
      next.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(end);
    Texts joined;
    for (const std::string& first : expanded) {
      for (const std::string& second : next) AddOnce(first + second, joined);
    }
    if (joined.size() > kMostWays) return false;
    expanded = std::move(joined);
  }
  return true;
}

bool IncludeMacros::ExpandIdentifier(std::string_view identifier, int depth,
                                     Texts& expanded) const {
  // Where it is not defined it stands for itself.
  expanded.assign(1, std::string(identifier));
  const auto found = macros_.find(identifier);
  if (found == macros_.end()) return !MayBePredefined(identifier);
  for (const Definition* definition : found->second) {
    if (definition->body == identifier) continue;
    Texts ways;
    if (definition->opaque || !ExpandText(definition->body, depth + 1, ways)) {
      return false;
    }
    for (std::string& way : ways) AddOnce(std::move(way), expanded);
  }
  return true;
}

}  // namespace reprise::kernels
