#include "kernels/include_directives.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace reprise::kernels {
namespace {

constexpr std::string_view kSpace = " \t\v\f\r";

bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The text with lines that end in a backslash joined to the next one.
std::string JoinLines(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  while (!text.empty()) {
    const size_t backslash = text.find('\\');
    joined.append(text.substr(0, backslash));
    if (backslash == std::string_view::npos) break;
    text.remove_prefix(backslash);
    const size_t end = std::min(text.find_first_not_of(kSpace, 1), text.size());
    if (end < text.size() && text[end] == '\n') {
      text.remove_prefix(end + 1);
    } else {
      joined += '\\';
      text.remove_prefix(1);
    }
  }
  return joined;
}

void SkipBlank(std::string_view& text) {
  while (true) {
    while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
    if (!text.starts_with("/*")) return;
    const size_t end = text.find("*/", 2);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 2);
  }
}

// What follows the '#' of a directive; nothing if the line has none. The line
// may begin within a comment that ends before the '#'.
std::optional<std::string_view> DirectiveOf(std::string_view line) {
  const auto after =
      [&line](std::string_view mark) -> std::optional<std::string_view> {
    for (size_t at = line.find(mark); at != std::string_view::npos;
         at = line.find(mark, at + 1)) {
      std::string_view before = line.substr(0, at);
      while (!before.empty() && IsSpace(before.back())) before.remove_suffix(1);
      if (before.empty() || before.ends_with("*/")) {
        return line.substr(at + mark.size());
      }
    }
    return std::nullopt;
  };
  if (auto directive = after("#")) return directive;
  return after("%:");
}

std::optional<std::string_view> TakeName(std::string_view& text) {
  if (text.empty() || (text.front() != '"' && text.front() != '<')) {
    return std::nullopt;
  }
  const size_t end = text.find(text.front() == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  return name;
}

// Names an include, as __has_include or MY_HAS_INCLUDE do too.
bool MentionsInclude(std::string_view text) {
  return Contains(text, "nclude") || Contains(text, "NCLUDE");
}

bool TakeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::string_view TakeIdentifier(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
          text[end] == '_' || text[end] == '$')) {
    ++end;
  }
  const std::string_view identifier = text.substr(0, end);
  text.remove_prefix(end);
  return identifier;
}

// Without the comment and the blanks at its end; nothing if what looks like a
// comment may be within a name.
std::optional<std::string_view> WithoutComment(std::string_view text) {
  const size_t comment = std::min(text.find("//"), text.find("/*"));
  if (comment != std::string_view::npos) {
    text = text.substr(0, comment);
    const auto count = [text](char c) {
      return std::count(text.begin(), text.end(), c);
    };
    if (count('"') % 2 != 0 || count('<') != count('>')) return std::nullopt;
  }
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

void AddInclude(std::string_view rest, IncludeDirectives& found) {
  TakeWord(rest, "_next");
  SkipBlank(rest);
  if (const auto name = TakeName(rest)) {
    found.names.emplace_back(*name);
    return;
  }
  const auto computed = WithoutComment(rest);
  if (computed && !computed->empty()) {
    found.computed.emplace_back(*computed);
  } else {
    found.complete = false;
  }
}

void AddDefinition(std::string_view rest, IncludeDirectives& found) {
  // More is no name of a file.
  constexpr size_t kLongestBody = 256;
  if (rest.empty() || (!IsSpace(rest.front()) && rest.front() != '/')) return;
  SkipBlank(rest);
  const std::string_view macro = TakeIdentifier(rest);
  if (macro.empty()) return;
  const bool takes_arguments = rest.starts_with('(');
  SkipBlank(rest);
  const auto body = WithoutComment(rest);
  if (takes_arguments || !body || body->size() > kLongestBody ||
      Contains(*body, "#")) {
    found.definitions.push_back({std::string(macro), "", true});
  } else {
    found.definitions.push_back({std::string(macro), std::string(*body)});
  }
}

void AddLine(std::string_view line, IncludeDirectives& found) {
  const std::optional<std::string_view> directive = DirectiveOf(line);
  if (!directive) return;
  std::string_view rest = *directive;
  SkipBlank(rest);
  if (rest.starts_with("/*")) found.complete = false;  // goes on elsewhere
  if (TakeWord(rest, "include")) return AddInclude(rest, found);
  std::string_view defined = rest;
  if (TakeWord(defined, "define")) AddDefinition(defined, found);
  if (!MentionsInclude(rest)) return;
  // Asks whether there is such a file, perhaps through a macro.
  for (size_t at; (at = rest.find_first_of("\"<")) != std::string_view::npos;) {
    rest.remove_prefix(at);
    if (const auto name = TakeName(rest)) {
      found.names.emplace_back(*name);
    } else {
      rest.remove_prefix(1);
    }
  }
}

}  // namespace

IncludeDirectives FindIncludeDirectives(std::string_view text) {
  IncludeDirectives found;
  for (const char* word : {"__DATE__", "__TIME__", "__TIMESTAMP__"}) {
    if (Contains(text, word)) found.complete = false;
  }
  // Trigraphs for '#' and for the backslash.
  if (Contains(text, "\?\?=") || Contains(text, "\?\?/")) {
    found.complete = false;
  }
  const std::string joined = JoinLines(text);
  std::string_view rest = joined;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    AddLine(line, found);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return found;
}

}  // namespace reprise::kernels
